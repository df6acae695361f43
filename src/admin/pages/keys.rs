//! The two keys of a topic or a namespace, on its page: hidden until asked for, renewed one at a time.

use crate::admin::page::*;
use crate::admin::reader::Reader;
use crate::broker::ManageError;
use crate::model::access::{AccessKeys, KeyName};

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

/// The keys on their page.
#[derive(Template)]
#[template(path = "widgets/keys.html")]
pub(crate) struct Keys {
    /// That of what has them.
    pub(crate) page: String,
    pub(crate) keys: AccessKeys,
    pub(crate) shown: Shown,
    /// When each was last used, where that is known: of a topic.
    pub(crate) used: Option<[Option<Timestamp>; 2]>,
}

part!(Keys);

impl Keys {
    /// Whether the page at the end of theirs is open.
    fn opens(&self, end: &str) -> bool {
        Reader::current().may_open(&format!("{}/keys{end}", self.page))
    }

    fn may_see(&self) -> bool {
        Reader::current().may_send(&format!("{}/keys", self.page))
    }
}

/// The key that a URL names.
pub(crate) fn named(text: &str) -> Result<KeyName, PageError> {
    let mut keys = KeyName::ALL.into_iter();
    let found = keys.find(|key| key.to_string() == text);
    found.ok_or_else(|| PageError::NotFound(format!("key {text}")))
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

/// The page with the keys on it.
pub(crate) async fn reveal<K: Keyed>(Query(asked): Query<Names>, mut call: Call<K>) -> PageResult {
    let shown = match name_of(&asked, "only") {
        "" => Shown::Both,
        key => Shown::Only(named(key)?),
    };
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
