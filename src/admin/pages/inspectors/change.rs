//! Forgetting the requests of an inspector, and deleting it, after a question.

use crate::admin::action::{Action, Done, Names, Question, Subject, name_of};
use crate::admin::page::*;
use crate::admin::paths::inspector_page;
use crate::model::inspector::Inspector;

impl Subject for Inspector {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        site.inspector(name_of(names, "name")).await
    }

    fn page(&self) -> String {
        inspector_page(&self.name)
    }
}

/// Forgets its requests.
pub(crate) static CLEAR: Action<Inspector> = Action {
    key: "clear",
    label: "Clear",
    role: Role::Operator,
    ask: Some(|call| {
        Box::pin(async move {
            let then = "Its answers would begin again with the first one.".to_owned();
            Ok(question("Clear", call.of, then))
        })
    }),
    run: |call| {
        Box::pin(async move {
            let (by, name) = (&call.visitor.caller, &call.of.name);
            let cleared = call.site.broker.clear_inspector(by, name).await?;
            let cleared = u64::try_from(cleared).unwrap_or(u64::MAX);
            let said = print::plural(cleared, "request has been", "requests have been");
            Ok(Done::well(format!("{said} forgotten.")))
        })
    },
};

/// Deletes it.
pub(crate) static DELETE: Action<Inspector> = Action {
    key: "delete",
    label: "Delete",
    role: Role::Admin,
    ask: Some(|call| {
        Box::pin(async move {
            let subscriptions = call.site.broker.subscriptions_of_inspector(&call.of.name);
            let subscriptions = print::plural(
                u64::try_from(subscriptions.len()).unwrap_or(u64::MAX),
                "event subscription delivers to it and would",
                "event subscriptions deliver to it and would",
            );
            let then = format!("{subscriptions} be answered with 404 from then on.");
            Ok(question("Delete", call.of, then))
        })
    }),
    run: |call| {
        Box::pin(async move {
            let (by, name) = (&call.visitor.caller, &call.of.name);
            call.site.broker.delete_inspector(by, name).await?;
            let said = format!("Inspector {name} has been deleted.");
            Ok(Done::well(said).leading_to("/admin/inspectors".to_owned()))
        })
    },
};

/// What happens besides that its requests are forgotten is `then`.
fn question(verb: &str, inspector: &Inspector, then: String) -> Question {
    let kept = print::plural(inspector.kept, "request", "requests");
    Question {
        title: format!("{verb} inspector {}?", inspector.name),
        consequences: vec![format!("{kept} would be forgotten."), then],
        dangerous: true,
    }
}
