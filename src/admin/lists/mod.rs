//! What lists have in common.

pub(crate) mod download;
pub(crate) mod filter;
pub(crate) mod filter_form;
pub(crate) mod recipe;

use askama::Template;

use crate::admin::widgets::part;

/// The way to older and newest rows of a list.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "admin/parts/pager.html")]
pub(crate) struct Pager {
    newest: Option<String>,
    older: Option<String>,
}

impl Pager {
    /// For a list at `path` with these filters, of which `before` was asked for and `next_before` would
    /// be the next page.
    pub(crate) fn new(
        path: &str,
        filters: &[(&str, String)],
        before: bool,
        next_before: Option<String>,
    ) -> Self {
        let older = next_before.map(|next| {
            let mut filters = filters.to_vec();
            filters.push(("before", next));
            link(path, &filters)
        });
        Self {
            newest: before.then(|| link(path, filters)),
            older,
        }
    }
}

/// `path` with the parameters that have a value.
pub(crate) fn link(path: &str, parameters: &[(&str, String)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    let query = query.extend_pairs(given).finish();
    match query.as_str() {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

part!(Pager);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_leave_out_what_is_empty_and_escape_the_rest() {
        let parameters = [("topic", String::new()), ("type", "a&b *".to_owned())];
        assert_eq!(
            link("/admin/events", &parameters),
            "/admin/events?type=a%26b+*"
        );
        assert_eq!(link("/admin/events", &parameters[..1]), "/admin/events");
    }
}
