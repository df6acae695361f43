//! Doing something with many rows of a list at once: those that are ticked.

use axum::extract::RawQuery;

use crate::admin::page::*;

/// Selected at once: as many as an address can carry whatever they are called.
const SELECTED_MAX: usize = 100;

pub(crate) trait Selectable: Subject {
    const LIST: &'static str;
    const NOUNS: (&'static str, &'static str);

    fn select(site: &Site, text: &str) -> impl Future<Output = PageResult<Self>> + Send;

    fn title(&self) -> String;
}

/// An action for all that are ticked, after a question. Its address is that of the action behind the list's.
pub(crate) struct Bulk<S: 'static> {
    pub(crate) key: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) changes: fn(&S) -> bool,
    pub(crate) consequence: &'static str,
    /// The message for a selection of which nothing changes.
    pub(crate) otherwise: &'static str,
}

impl<S: Selectable> Bulk<S> {
    pub(crate) fn offer(&self) -> (&'static str, &'static str) {
        (self.key, self.verb)
    }

    pub(crate) fn handler<R>(&'static self, run: fn(Call<S>) -> R) -> MethodRouter<Arc<Site>>
    where
        R: Future<Output = PageResult<Flash>> + Send + 'static,
    {
        get(|RawQuery(query), call: Call| self.ask(call, query))
            .post(move |RawQuery(query), call: Call| self.run(call, query, run))
    }

    async fn ask(&self, call: Call, query: Option<String>) -> PageResult {
        let visitor = &call.visitor;
        let selected = selected::<S>(&call.site, query).await?;
        let (changed, unchanged): (Vec<_>, Vec<_>) =
            selected.iter().partition(|each| (self.changes)(each));
        if changed.is_empty() {
            let nothing = if unchanged.is_empty() {
                "Nothing is selected."
            } else {
                self.otherwise
            };
            return visitor.leave(Flash::unchanged(nothing), S::LIST).await;
        }
        let verb = self.verb;
        let button = format!("{verb} {}", counted::<S>(changed.len()));
        let named = Vec::from_iter(changed.iter().map(|each| each.title()));
        let mut question = Question::new(format!("{button}?"))
            .would(self.consequence)
            .would(format!("{}.", print::listed(&named)));
        if !unchanged.is_empty() {
            let count = counted::<S>(unchanged.len());
            question = question.would(format!("Nothing changes for {count} of the selection."));
        }
        let action = visitor.address.clone();
        Ok(question.draw(visitor, button, action, S::LIST.to_owned()))
    }

    async fn run<R>(&self, call: Call, query: Option<String>, run: fn(Call<S>) -> R) -> PageResult
    where
        R: Future<Output = PageResult<Flash>>,
    {
        let mut selected = selected::<S>(&call.site, query).await?;
        selected.retain(|each| (self.changes)(each));
        let said = format!("{}: {}.", self.verb, counted::<S>(selected.len()));
        for of in selected {
            run(call.clone().about(of)).await?;
        }
        call.visitor.leave(Flash::done(said), S::LIST).await
    }
}

/// Finds the things that a query names: `of=orders/billing&of=orders/crm`.
async fn selected<S: Selectable>(site: &Site, query: Option<String>) -> PageResult<Vec<S>> {
    let pairs = url::form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes());
    let names = pairs.filter(|(name, _)| name == "of");
    let names: BTreeSet<_> = names.map(|(_, value)| value).collect();
    if names.len() > SELECTED_MAX {
        let count = counted::<S>(names.len());
        let problem = format!("{count} are selected; {SELECTED_MAX} at once are possible.");
        return Err(PageError::Unreadable(problem));
    }
    let mut selected = Vec::new();
    for name in names {
        selected.push(S::select(site, &name).await?);
    }
    Ok(selected)
}

fn counted<S: Selectable>(count: usize) -> String {
    let (one, many) = S::NOUNS;
    print::plural(count, one, many)
}
