//! The common parts of lists.

pub(crate) mod bulk;
pub(crate) mod by_name;
pub(crate) mod download;
pub(crate) mod filter;
pub(crate) mod list;
pub(crate) mod recipe;

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
