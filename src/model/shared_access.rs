//! What shared access rules allow (rule S1.1).

/// One thing that a rule may allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    Send,
    Listen,
    Manage,
}

/// What a rule allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    pub send: bool,
    pub listen: bool,
    /// Includes the others.
    pub manage: bool,
}

impl Rights {
    /// All of them.
    pub const ALL: Self = Self {
        send: true,
        listen: true,
        manage: true,
    };

    /// To send and to receive.
    pub const USE: Self = Self {
        manage: false,
        ..Self::ALL
    };

    /// Whether `right` is among them.
    pub fn allow(self, right: Right) -> bool {
        self.manage
            || match right {
                Right::Send => self.send,
                Right::Listen => self.listen,
                Right::Manage => false,
            }
    }
}
