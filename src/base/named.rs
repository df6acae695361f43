//! Enums whose variants have names, and ids: what each of them needs, written once.

/// Declares an enum whose variants have names in the API, in the database and on pages: their own, unless
/// another one is given.
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $type:ident {
        $($(#[$doc:meta])* $variant:ident $(= $name:literal)?,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[$doc])* $variant,)+
        }

        impl $type {
            /// All variants, in the order in which they are offered.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => [$($name,)? stringify!($variant)][0],)+
                }
            }

            /// The one of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|each| each.name() == name)
            }
        }
    };
}

/// Declares ids of stored things: they ascend and are never reused.
macro_rules! ids {
    ($($(#[$doc:meta])* $id:ident,)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $id(pub i64);

        impl std::fmt::Display for $id {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

pub(crate) use {ids, named_enum};
