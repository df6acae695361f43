//! Forgetting the requests of an inspector, and deleting it, after a question.

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

pub(crate) async fn ask_to_clear(call: Call<Inspector>) -> PageResult<Question> {
    let then = "Its answers would begin again with the first one.";
    Ok(question("Clear", &call.of).would(then))
}

/// Forgets its requests.
pub(crate) async fn clear(call: Call<Inspector>) -> PageResult<Done> {
    let cleared = call
        .broker
        .clear_inspector(call.by(), &call.of.name)
        .await?;
    let said = print::plural(cleared, "request has been", "requests have been");
    Ok(Done::well(format!("{said} forgotten.")))
}

pub(crate) async fn ask_to_delete(call: Call<Inspector>) -> PageResult<Question> {
    let subscriptions = print::plural(
        call.broker.subscriptions_of_inspector(&call.of.name).len(),
        "event subscription delivers to it and would",
        "event subscriptions deliver to it and would",
    );
    let then = format!("{subscriptions} be answered with 404 from then on.");
    Ok(question("Delete", &call.of).would(then))
}

pub(crate) async fn delete(call: Call<Inspector>) -> PageResult<Done> {
    let name = &call.of.name;
    call.broker.delete_inspector(call.by(), name).await?;
    Ok(Done::well(format!("Inspector {name} has been deleted.")).leading_to("/admin/inspectors"))
}

fn question(verb: &str, inspector: &Inspector) -> Question {
    let kept = print::plural(inspector.kept, "request", "requests");
    Question::new(format!("{verb} inspector {}?", inspector.name))
        .would(format!("{kept} would be forgotten."))
        .dangerously()
}
