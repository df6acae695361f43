//! The two keys of a topic or a namespace, on its page: hidden until asked for, renewed one at a time.

use askama::Template;
use axum::extract::Query;
use axum::response::{IntoResponse, Redirect};

use crate::admin::action::{Call, Names, Question, Subject, name_of};
use crate::admin::error::{PageError, PageResult};
use crate::admin::security::session::Visitor;
use crate::admin::site::existing;
use crate::admin::widgets::{Flash, Icon, filters, part, print};
use crate::base::Timestamp;
use crate::model::access::{AccessKeys, KeyName, KeyOwner};

#[derive(Template)]
#[template(path = "widgets/keys.html")]
pub(crate) struct Keys {
    /// The page of the owner of the keys.
    page: String,
    visitor: Visitor,
    keys: AccessKeys,
    /// The keys that are shown in plain text.
    shown: Vec<KeyName>,
    /// Time of the last use of each key.
    used: [Option<Timestamp>; 2],
    is_of_namespace: bool,
}

part!(Keys);

impl Keys {
    pub(crate) async fn of<S: Keyed>(
        call: &Call<S>,
        keys: &AccessKeys,
        shown: Vec<KeyName>,
    ) -> PageResult<Self> {
        let owner = call.of.owner();
        Ok(Self {
            page: call.of.page(),
            visitor: call.visitor.clone(),
            keys: keys.clone(),
            shown,
            used: call.broker.key_uses(owner).await?,
            is_of_namespace: matches!(owner, KeyOwner::Namespace(_)),
        })
    }
}

/// The consequence of deleting something that has keys.
pub(crate) const KEYS_STOP: &str = "Its keys stop working for good: clients are rejected.";

pub(crate) fn named(text: &str) -> Result<KeyName, PageError> {
    let mut keys = KeyName::ALL.into_iter();
    existing(keys.find(|key| key.to_string() == text), "key", text)
}

pub(crate) trait Keyed: Subject {
    fn owner(&self) -> KeyOwner;

    fn draw(call: &Call<Self>, shown: Vec<KeyName>) -> impl Future<Output = PageResult> + Send;
}

pub(crate) async fn reveal<K: Keyed>(Query(asked): Query<Names>, mut call: Call<K>) -> PageResult {
    let shown = match name_of(&asked, "only") {
        "" => KeyName::ALL.to_vec(),
        // Only the key that was just renewed is shown.
        key => vec![named(key)?],
    };
    call.visitor = call.visitor.with_flash().await?;
    let owner = call.of.owner();
    call.broker.access_keys(call.by(), owner, None).await?;
    K::draw(&call, shown).await
}

pub(crate) async fn ask_to_regenerate<K: Keyed>(call: Call<K>) -> PageResult<Question> {
    let key = named(name_of(&call.names, "key"))?;
    let title = format!("Regenerate {key} of {}?", call.of.name());
    let would = format!("Whoever uses {key}, or a SAS token made with it, is rejected at once.");
    let uses = call.broker.key_uses(call.of.owner()).await?;
    let now = call.visitor.now;
    let used = uses.map(|at| at.map_or("never".to_owned(), |at| print::relative(at, now)));
    Ok(Question::new(title)
        .would(would)
        .would(format!("Last used: key1 {}, key2 {}.", used[0], used[1]))
        .would("The other key stays as it is: move your clients to it first.")
        .dangerously())
}

/// Renews a key and redirects to it, since the visitor needs to see the new key next.
pub(crate) async fn regenerate<K: Keyed>(call: Call<K>) -> PageResult {
    let key = named(name_of(&call.names, "key"))?;
    let (by, owner) = (call.by(), call.of.owner());
    call.broker.access_keys(by, owner, Some(key)).await?;
    let said = format!("{key} has been regenerated.");
    call.visitor.flash(Flash::done(said)).await?;
    // The form goes along, since keys are shown to nothing else.
    let page = format!("{}/keys?only={key}#keys", call.of.page());
    Ok(Redirect::temporary(&page).into_response())
}
