//! The two keys of a topic or a namespace, on its page: hidden until asked for, renewed one at a time.

use serde::Deserialize;

use crate::admin::page::*;
use crate::admin::pages::traffic::RangeChoice;
use crate::admin::pages::{namespaces, topics};
use crate::broker::ManageError;
use crate::model::access::{AccessKeys, KeyName};
use crate::model::registry::NamespaceEntry;

/// Which keys a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    None,
    Both,
    /// The one that has just been renewed: nobody asked for the other.
    Only(KeyName),
}

impl Shown {
    /// Whether this key is shown.
    pub(crate) fn has(self, key: KeyName) -> bool {
        match self {
            Self::None => false,
            Self::Both => true,
            Self::Only(shown) => shown == key,
        }
    }
}

/// The part of an address that chooses the key to show.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OnlyKey {
    only: String,
}

impl OnlyKey {
    /// Both where none is named.
    pub(crate) fn chosen(&self) -> Result<Shown, PageError> {
        match self.only.as_str() {
            "" => Ok(Shown::Both),
            name => Ok(Shown::Only(named(name)?)),
        }
    }
}

/// The keys ready to print.
#[derive(Template)]
#[template(path = "widgets/keys.html")]
pub(crate) struct Keys {
    /// The page that they are on.
    path: String,
    csrf: String,
    rows: [KeyRow; 2],
    are_shown: bool,
    /// What the visitor's role allows.
    may_see: bool,
    may_renew: bool,
    /// What is published to has tokens of its own.
    may_sign: bool,
    note: &'static str,
    /// Whether it is known when they were last used.
    tells_use: bool,
}

struct KeyRow {
    name: KeyName,
    /// `None` for never.
    used_at: Option<Timestamp>,
    /// `None` while it is hidden.
    value: Option<String>,
}

part!(Keys);

impl Keys {
    /// For the page at `path`.
    pub(crate) fn new(visitor: &Visitor, path: &str, keys: &AccessKeys, shown: Shown) -> Self {
        let row = |name| KeyRow {
            name,
            used_at: None,
            value: shown.has(name).then(|| keys.get(name).reveal().to_owned()),
        };
        Self {
            path: path.to_owned(),
            csrf: visitor.csrf.clone(),
            rows: [KeyName::Key1, KeyName::Key2].map(row),
            are_shown: shown != Shown::None,
            may_see: visitor.may_send(&format!("{path}/keys")),
            may_renew: visitor.may_open(&format!("{path}/keys/key1/regenerate")),
            may_sign: visitor.may_open(&format!("{path}/keys/token")),
            note: "Move your clients to the other key before you regenerate one.",
            tells_use: false,
        }
    }
}

/// The key that a URL names.
pub(crate) fn named(text: &str) -> Result<KeyName, PageError> {
    let mut keys = [KeyName::Key1, KeyName::Key2].into_iter();
    let found = keys.find(|key| key.to_string() == text);
    found.ok_or_else(|| PageError::NotFound(format!("key {text}")))
}

impl Keys {
    /// The same, last used at these times.
    pub(crate) fn used(mut self, at: [Option<Timestamp>; 2]) -> Self {
        for (row, at) in self.rows.iter_mut().zip(at) {
            row.used_at = at;
        }
        self.tells_use = true;
        self
    }

    /// The same with another note below.
    pub(crate) fn noting(self, note: &'static str) -> Self {
        Self { note, ..self }
    }
}

/// What has keys, and a page that shows them.
pub(crate) trait Keyed: Subject {
    fn name(&self) -> &str;

    /// Records that they are shown to somebody.
    fn reveal(call: &Call<Self>) -> impl Future<Output = Result<AccessKeys, ManageError>> + Send;

    fn regenerate(
        call: &Call<Self>,
        key: KeyName,
    ) -> impl Future<Output = Result<(), ManageError>> + Send;

    /// The page.
    fn draw(call: &Call<Self>, shown: Shown) -> impl Future<Output = PageResult> + Send;
}

impl Keyed for Arc<TopicEntry> {
    fn name(&self) -> &str {
        self.topic.name.as_str()
    }

    async fn reveal(call: &Call<Self>) -> Result<AccessKeys, ManageError> {
        call.broker
            .show_topic_keys(call.by(), &call.of.topic.name)
            .await
    }

    async fn regenerate(call: &Call<Self>, key: KeyName) -> Result<(), ManageError> {
        call.broker
            .regenerate_key(call.by(), &call.of.topic.name, key)
            .await?;
        Ok(())
    }

    async fn draw(call: &Call<Self>, shown: Shown) -> PageResult {
        topics::draw_topic(call, &RangeChoice::default(), shown).await
    }
}

impl Keyed for Arc<NamespaceEntry> {
    fn name(&self) -> &str {
        self.namespace.name.as_str()
    }

    async fn reveal(call: &Call<Self>) -> Result<AccessKeys, ManageError> {
        call.broker
            .show_namespace_keys(call.by(), &call.of.namespace.name)
            .await
    }

    async fn regenerate(call: &Call<Self>, key: KeyName) -> Result<(), ManageError> {
        let name = &call.of.namespace.name;
        call.broker
            .regenerate_namespace_key(call.by(), name, key)
            .await?;
        Ok(())
    }

    async fn draw(call: &Call<Self>, shown: Shown) -> PageResult {
        namespaces::draw_namespace(call, shown).await
    }
}

/// The page with the keys on it.
pub(crate) async fn reveal<K: Keyed>(Query(only): Query<OnlyKey>, mut call: Call<K>) -> PageResult {
    let shown = only.chosen()?;
    call.visitor = call.visitor.with_flash().await?;
    K::reveal(&call).await?;
    K::draw(&call, shown).await
}

/// Asks before a key is renewed.
pub(crate) async fn ask_to_regenerate<K: Keyed>(call: Call<K>) -> PageResult<Question> {
    let key = named(name_of(&call.names, "key"))?;
    Ok(
        Question::new(format!("Regenerate {key} of {}?", call.of.name()))
            .would(format!(
                "Whoever uses {key}, or signatures made with it, is rejected at once."
            ))
            .would("The other key stays as it is: have your clients use it first.")
            .dangerously(),
    )
}

/// Renews a key, and leads to it: whoever may renew one has to see it next.
pub(crate) async fn regenerate<K: Keyed>(call: Call<K>) -> PageResult {
    let key = named(name_of(&call.names, "key"))?;
    K::regenerate(&call, key).await?;
    let said = format!("{key} has been regenerated.");
    call.visitor.flash(Flash::done(said)).await?;
    // The form goes along, since keys are shown to nothing else.
    let page = format!("{}/keys?only={key}", call.of.page());
    Ok(Redirect::temporary(&page).into_response())
}
