//! A labelled field of a form, with its explanation and what is wrong with it.

use askama::Template;

use crate::admin::forms::form::{Form, Refusal};
use crate::admin::reader::Reader;
use crate::admin::widgets::part;

/// A field ready to print.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/field.html")]
pub(crate) struct Field {
    name: String,
    /// The path of the property that it fills in.
    path: String,
    label: &'static str,
    hint: String,
    problem: Option<String>,
    required: bool,
    /// Classes by which the stylesheet shows it for some choices alone; empty for always.
    only_for: String,
    control: Control,
}

/// What it is filled in with.
#[derive(Clone, Debug)]
enum Control {
    /// One line. `kind` is the type of the input element.
    Line {
        kind: &'static str,
        value: String,
        /// Whether it holds code rather than prose.
        mono: bool,
        autocomplete: &'static str,
    },
    Area {
        rows: u32,
        value: String,
    },
    Choice {
        /// Under titles; the only group may have none.
        groups: Vec<ChoiceGroup>,
    },
    Box {
        on: bool,
    },
}

/// Options that belong together.
#[derive(Clone, Debug)]
struct ChoiceGroup {
    title: &'static str,
    options: Vec<Choice>,
}

/// One of the options of a choice.
#[derive(Clone, Debug)]
struct Choice {
    value: String,
    text: String,
    chosen: bool,
}

part!(Field);

impl Field {
    /// One line of prose or a name.
    pub(crate) fn line(name: &str, label: &'static str, form: &Form) -> Self {
        Self::with_kind("text", name, label, form)
    }

    /// The absolute URL of something.
    pub(crate) fn url(name: &str, label: &'static str, form: &Form) -> Self {
        Self::with_kind("url", name, label, form)
    }

    /// A whole number. It stays a line of text, so that a slip is answered by us and by the field's
    /// name.
    pub(crate) fn number(name: &str, label: &'static str, form: &Form) -> Self {
        Self::with_kind("text", name, label, form)
    }

    /// A date and a time of day, by the clocks of the reader.
    pub(crate) fn moment(name: &str, label: &'static str, form: &Form) -> Self {
        let zone = &Reader::current().zone;
        let mut field = Self::with_kind("datetime-local", name, label, form);
        if let Control::Line { value, .. } = &mut field.control
            && let Some(at) = zone.moment(value)
        {
            *value = zone.typed(at);
        }
        field.hint(format!("In {}.", zone.name()))
    }

    /// A password, never filled in by us. `autocomplete` tells the browser whether it is a new one.
    pub(crate) fn password(name: &str, label: &'static str, autocomplete: &'static str) -> Self {
        let mut field = Self::with_kind("password", name, label, &Form::default());
        if let Control::Line {
            autocomplete: it, ..
        } = &mut field.control
        {
            *it = autocomplete;
        }
        field
    }

    /// A secret that is kept for somebody else: what is stored is never filled in, what was typed and not
    /// saved stays in a form that is drawn again.
    pub(crate) fn secret(name: &str, label: &'static str, form: &Form) -> Self {
        // The browser's own password is none of it.
        Self::with_kind("password", name, label, form).autocomplete("off")
    }

    /// Several lines.
    pub(crate) fn area(name: &str, label: &'static str, rows: u32, form: &Form) -> Self {
        let value = form.raw(name).to_owned();
        Self::new(name, label, Control::Area { rows, value })
    }

    /// One of a few: values and their texts.
    pub(crate) fn choice(
        name: &str,
        label: &'static str,
        options: &[(&str, &str)],
        form: &Form,
    ) -> Self {
        let options = options.iter();
        let options = options.map(|(value, text)| ((*value).to_owned(), (*text).to_owned()));
        Self::grouped_choice(name, label, vec![("", options.collect())], form)
    }

    /// One of many, under the titles of groups.
    pub(crate) fn grouped_choice(
        name: &str,
        label: &'static str,
        groups: Vec<(&'static str, Vec<(String, String)>)>,
        form: &Form,
    ) -> Self {
        let choice = |(value, text): (String, String)| Choice {
            chosen: form.text(name) == value,
            value,
            text,
        };
        let groups = groups.into_iter().map(|(title, options)| ChoiceGroup {
            title,
            options: options.into_iter().map(choice).collect(),
        });
        let groups = groups.collect();
        Self::new(name, label, Control::Choice { groups })
    }

    /// A box to tick.
    pub(crate) fn tick(name: &str, label: &'static str, form: &Form) -> Self {
        let on = form.is_on(name);
        Self::new(name, label, Control::Box { on })
    }

    /// The same with an explanation.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: hint.into(),
            ..self
        }
    }

    /// The same, to be filled in.
    pub(crate) fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }

    /// The same in the typeface of code.
    pub(crate) fn mono(mut self) -> Self {
        if let Control::Line { mono, .. } = &mut self.control {
            *mono = true;
        }
        self
    }

    /// The same, hidden unless one of these classes fits what is chosen beside it. Browsers that cannot tell
    /// show it always.
    pub(crate) fn only_for(self, classes: impl Into<String>) -> Self {
        Self {
            only_for: classes.into(),
            ..self
        }
    }

    /// The same for the property at that path.
    pub(crate) fn at(self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..self
        }
    }

    /// The same with what the browser may fill in.
    pub(crate) fn autocomplete(mut self, with: &'static str) -> Self {
        if let Control::Line { autocomplete, .. } = &mut self.control {
            *autocomplete = with;
        }
        self
    }

    fn has_notes(&self) -> bool {
        self.problem.is_some() || !self.hint.is_empty()
    }

    fn with_kind(kind: &'static str, name: &str, label: &'static str, form: &Form) -> Self {
        let control = Control::Line {
            kind,
            value: form.raw(name).to_owned(),
            mono: false,
            autocomplete: "off",
        };
        Self::new(name, label, control)
    }

    fn new(name: &str, label: &'static str, control: Control) -> Self {
        Self {
            name: name.to_owned(),
            path: name.to_owned(),
            label,
            hint: String::new(),
            problem: None,
            required: false,
            only_for: String::new(),
            control,
        }
    }
}

/// Fields that belong together, under a title.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) fields: Vec<Field>,
}

/// What is wrong with a form, above it.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/problem.html")]
pub(crate) struct Problem {
    faults: Vec<Fault>,
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
struct Fault {
    text: String,
    /// Field and label to go to.
    field: Option<(String, String)>,
}

part!(Problem);

impl Problem {
    /// What is wrong, and the name and label of the field at which each of it is told; `None` if nothing is wrong.
    pub(crate) fn new(
        refusals: impl Iterator<Item = (Refusal, Option<(String, String)>)>,
    ) -> Option<Self> {
        let fault = |(Refusal { target, problem }, field): (_, Option<_>)| {
            let text = match target.as_str() {
                target if field.is_none() && !target.is_empty() => format!("{target}: {problem}"),
                _ => problem,
            };
            Fault { text, field }
        };
        let faults: Vec<Fault> = refusals.map(fault).collect();
        (!faults.is_empty()).then_some(Self { faults })
    }
}

/// Writes every one of `refusals` to the field at fault, and gives what to say above the form; `None` if nothing
/// is wrong.
pub(crate) fn mark<'a>(
    fields: impl Iterator<Item = &'a mut Field>,
    refusals: impl IntoIterator<Item = Refusal>,
) -> Option<Problem> {
    let mut fields: Vec<&mut Field> = fields.collect();
    let refusals = refusals.into_iter();
    let placed = refusals.map(|each| (each.clone(), mark_one(&mut fields, each)));
    Problem::new(placed)
}

/// The name and label of the field that has it.
fn mark_one(fields: &mut [&mut Field], refusal: Refusal) -> Option<(String, String)> {
    // Of equally close ones the first.
    let mut closest: Option<(usize, &mut Field)> = None;
    for field in fields {
        let closeness = refusal.closeness(&field.path);
        if closeness > closest.as_ref().map_or(0, |(most, _)| *most) {
            closest = Some((closeness, field));
        }
    }
    let (_, field) = closest?;
    field.problem = Some(match field.problem.take() {
        None => refusal.problem,
        Some(before) => format!("{before} {}", refusal.problem),
    });
    Some((field.name.clone(), field.label.to_owned()))
}
