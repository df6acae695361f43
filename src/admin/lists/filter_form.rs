//! The form above a list by which it is filtered: what matters most first, the rest folded away.

use askama::Template;

use crate::admin::forms::field::Field;
use crate::admin::widgets::part;

/// Fields up to which nothing is folded away: they take one or two rows on a laptop.
const SHOWN_MAX: usize = 4;

/// Fields that stay visible where there are more than those.
const FIRST: usize = 3;

/// The form, ready to print.
#[derive(Template)]
#[template(path = "admin/parts/filter_form.html")]
pub(crate) struct FilterForm {
    /// The list.
    path: &'static str,
    first: Vec<Field>,
    more: Vec<Field>,
    /// How many of `more` are filled in.
    in_use: usize,
    is_open: bool,
    is_filtered: bool,
}

part!(FilterForm);

impl FilterForm {
    /// Of the list at `path`, with what was asked of it by the names of `fields`, of which those that matter
    /// most come first.
    pub(crate) fn new(
        path: &'static str,
        mut fields: Vec<Field>,
        asked: &[(&str, String)],
    ) -> Self {
        let more = match fields.len() > SHOWN_MAX {
            true => fields.split_off(FIRST),
            false => Vec::new(),
        };
        let given = |name: &str| {
            let mut asked = asked.iter();
            asked.any(|(asked, value)| *asked == name && !value.trim().is_empty())
        };
        let in_use = more.iter().filter(|field| given(field.name())).count();
        Self {
            path,
            is_open: in_use > 0 || more.iter().any(Field::is_at_fault),
            is_filtered: asked.iter().any(|(name, _)| given(name)),
            first: fields,
            more,
            in_use,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::forms::form::Form;

    fn form_of(names: &[&str], asked: &[(&str, &str)]) -> FilterForm {
        let field = |name: &&str| Field::line(name, "Label", &Form::default());
        let asked = asked
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let asked: Vec<_> = asked.collect();
        FilterForm::new("/admin/list", names.iter().map(field).collect(), &asked)
    }

    #[test]
    fn few_fields_are_not_folded() {
        let form = form_of(&["a", "b", "c", "d"], &[("d", "x")]);
        assert_eq!((form.first.len(), form.more.len()), (4, 0));
        assert!(form.is_filtered);
        let text = form.to_string();
        assert!(!text.contains("<details"), "{text}");
        assert!(text.contains("href=\"/admin/list\">Clear</a>"), "{text}");
    }

    #[test]
    fn what_is_folded_away_and_in_use_is_counted_and_open() {
        let names = ["a", "b", "c", "d", "e"];
        for (asked, in_use, is_filtered) in [
            (&[("a", ""), ("e", " ")][..], 0, false),
            (&[("a", "x")], 0, true),
            (&[("a", "x"), ("d", "x"), ("e", "x")], 2, true),
        ] {
            let form = form_of(&names, asked);
            assert_eq!((form.first.len(), form.more.len()), (3, 2));
            assert_eq!((form.in_use, form.is_filtered), (in_use, is_filtered));
            let text = form.to_string();
            assert_eq!(text.contains("2 in use"), in_use == 2, "{text}");
            assert_eq!(text.contains(" open>"), in_use > 0, "{text}");
        }
    }
}
