//! Sections of the form that are folded away while there is nothing of one's own in them, each with what is in
//! force.

use super::headers::HeaderFields;
use super::{Subject, blank, credentials, dead_letters, destination, form_of, headers, new, notes};
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Form;
use crate::admin::widgets::print;
use crate::model::destination::{AttributeValue, Destination};
use crate::model::subscription::{EventSubscription, SubscriptionDefinition};
use crate::wire::resource::SubscriptionContext;

/// A section that is folded away while there is nothing of one's own in it.
pub(crate) struct Fold {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// What is in force.
    pub(crate) summary: String,
    /// Whether something is not as it is by default.
    differs: bool,
    pub(crate) fields: Vec<Field>,
    /// In the section that is about them.
    pub(crate) headers: Option<HeaderFields>,
}

impl Fold {
    /// Whether it has something to look at.
    pub(crate) fn is_open(&self) -> bool {
        let rows = self.headers.iter().flat_map(|headers| &headers.rows);
        let rows = rows.flat_map(|row| &row.fields);
        self.differs || self.fields.iter().chain(rows).any(Field::is_at_fault)
    }

    /// All of its fields.
    pub(crate) fn fields_mut(&mut self) -> impl Iterator<Item = &mut Field> {
        let rows = self
            .headers
            .iter_mut()
            .flat_map(|headers| &mut headers.rows);
        self.fields
            .iter_mut()
            .chain(rows.flat_map(|row| &mut row.fields))
    }
}

/// Makes the sections of a form that are folded.
pub(crate) struct Folds<'a> {
    form: &'a Form,
    /// What a form looks like in which nothing was chosen: as it is opened, and once it is saved.
    untouched: Vec<Form>,
}

impl<'a> Folds<'a> {
    pub(crate) fn new(form: &'a Form, subject: &Subject<'_>) -> Self {
        Self {
            form,
            untouched: untouched(subject),
        }
    }

    pub(crate) fn fold(
        &self,
        (id, title): (&'static str, &'static str),
        summary: &str,
        fields: Vec<Field>,
    ) -> Fold {
        let has = |field: &Field, other: &Form| {
            let name = field.name();
            self.form.text(name) == other.text(name)
        };
        let is_untouched = |field: &Field| self.untouched.iter().any(|form| has(field, form));
        Fold {
            id,
            title,
            summary: print::visible(summary),
            differs: !fields.iter().all(is_untouched),
            fields,
            headers: None,
        }
    }

    /// The section with headers of one's own.
    fn headers(&self, subject: &Subject<'_>) -> Fold {
        let headers = headers::fields(self.form, &secret_headers(subject.current));
        let fold = self.fold(
            ("fold-headers", "Custom headers"),
            &headers::summary(self.form),
            Vec::new(),
        );
        Fold {
            differs: !headers.rows.is_empty(),
            headers: Some(headers),
            ..fold
        }
    }

    /// The sections on what a webhook is shown.
    pub(crate) fn webhook(&self, subject: &Subject<'_>) -> Vec<Fold> {
        let stored = subject.current.and_then(|each| match &each.destination {
            Destination::WebHook(webhook) => Some(&webhook.credentials),
            Destination::Queue(_) => None,
        });
        let mut folds = vec![
            self.headers(subject),
            self.fold(
                ("fold-credentials", "Credentials"),
                &credentials::summary(self.form),
                credentials::fields(self.form, stored),
            ),
        ];
        if stored.is_none() {
            folds.push(self.fold(
                ("fold-signing", "Signing"),
                credentials::signing_summary(self.form),
                credentials::signing_fields(self.form),
            ));
        }
        folds
    }

    /// The sections on what is given up, and on what the subscription is.
    pub(crate) fn end(&self, subject: &Subject<'_>) -> [Fold; 2] {
        let dead_letter = subject.current.map(|current| &current.dead_letter);
        [
            self.fold(
                ("fold-dead-letters", "Dead letters"),
                dead_letters::summary(self.form),
                dead_letters::fields(self.form, dead_letter),
            ),
            self.fold(
                ("fold-notes", "Labels and expiration"),
                &notes::summary(self.form),
                notes::fields(self.form),
            ),
        ]
    }
}

/// The names of headers whose values are stored and not shown.
fn secret_headers(current: Option<&SubscriptionDefinition>) -> Vec<&str> {
    let mappings = current.map(|current| current.destination.attribute_mappings());
    let mappings = mappings.into_iter().flatten();
    let secret = mappings.filter(|each| {
        matches!(
            each.value,
            AttributeValue::Static {
                is_secret: true,
                ..
            }
        )
    });
    secret.map(|each| each.name.as_str()).collect()
}

/// The form as it is opened, and as it is filled with what that defines.
fn untouched(subject: &Subject<'_>) -> Vec<Form> {
    let opened = blank(subject.topic);
    let mut form = opened.clone();
    destination::set_example(&mut form);
    let now = subject.topic.topic.created_at;
    let context = SubscriptionContext::of(subject.topic, now, false);
    let saved = new(&form, subject.mode, &context).ok().map(|definition| {
        let subscription = EventSubscription::unstored(definition, now);
        form_of(subject.topic, &subscription)
    });
    std::iter::once(opened).chain(saved).collect()
}
