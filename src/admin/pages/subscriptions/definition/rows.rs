//! Lists of a document as rows of fields, named by the paths of what they hold: `advancedFilters[2].key`.

use crate::admin::forms::form::Form;

/// How a list is named, and its rows.
pub(crate) struct Rows {
    pub(crate) list: &'static str,
    /// What each row has. Browsers send the first of them for every row, filled in or not.
    pub(crate) parts: &'static [&'static str],
}

impl Rows {
    /// The name of a field.
    pub(crate) fn name(&self, index: usize, part: &str) -> String {
        format!("{}[{index}].{part}", self.list)
    }

    /// Rows in the form.
    pub(crate) fn count(&self, form: &Form) -> usize {
        (0..)
            .take_while(|index| form.has(&self.name(*index, self.parts[0])))
            .count()
    }

    /// Takes a row out; later ones move up.
    pub(crate) fn remove(&self, form: &mut Form, index: usize) {
        let count = self.count(form);
        if index >= count {
            return;
        }
        for part in self.parts {
            for next in index + 1..count {
                let text = form.raw(&self.name(next, part)).to_owned();
                form.set(self.name(next - 1, part), text);
            }
            form.remove(&self.name(count - 1, part));
        }
    }

    /// Takes all rows out.
    pub(crate) fn clear(&self, form: &mut Form) {
        for index in 0..self.count(form) {
            for part in self.parts {
                form.remove(&self.name(index, part));
            }
        }
    }
}
