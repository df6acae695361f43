//! Headers of one's own, in rows of fields. What is stored of a secret one is never shown, and stays while its
//! value is left empty.

use serde_json::{Value, json};

use super::clauses::KEYS_ID;
use super::rows::Rows;
use super::value::{text, ticked};
use crate::admin::forms::field::Field;
use crate::admin::forms::form::{Form, Refusal};
use crate::model::limits::{DELIVERY_ATTRIBUTE_BYTES_MAX, DELIVERY_ATTRIBUTES_MAX};

/// The list of headers.
pub(crate) const HEADERS: &str = "deliveryAttributeMappings";

const NAME: &str = "name";
const TYPE: &str = "type";
const VALUE: &str = "properties.value";
const IS_SECRET: &str = "properties.isSecret";
const SOURCE: &str = "properties.sourceField";

const STATIC: &str = "Static";
const DYNAMIC: &str = "Dynamic";

const ROWS: Rows = Rows {
    list: HEADERS,
    parts: &[NAME, TYPE, VALUE, IS_SECRET, SOURCE],
};

/// What the buttons say that change the rows.
const ADD: &str = "add-header";
/// The index of a row follows.
const REMOVE: &str = "remove-header-";

/// The rows, and the button that adds one.
pub(crate) struct HeaderFields {
    pub(crate) rows: Vec<HeaderFieldRow>,
    /// What the button says; `None` if there is no room for another.
    pub(crate) add: Option<&'static str>,
}

/// One header as fields.
pub(crate) struct HeaderFieldRow {
    pub(crate) title: String,
    /// What the button says that removes it.
    pub(crate) remove: String,
    pub(crate) fields: [Field; 5],
}

/// Puts the headers of a document into the form.
pub(crate) fn fill(form: &mut Form, destination: &Value) {
    ROWS.clear(form);
    let headers = destination[HEADERS].as_array().into_iter().flatten();
    for (index, header) in headers.enumerate() {
        put(form, index, header);
    }
}

fn put(form: &mut Form, index: usize, header: &Value) {
    let properties = &header["properties"];
    for (part, value) in [
        (NAME, text(&header[NAME])),
        (TYPE, text(&header[TYPE])),
        (VALUE, text(&properties["value"])),
        (IS_SECRET, ticked(&properties["isSecret"])),
        (SOURCE, text(&properties["sourceField"])),
    ] {
        form.set(ROWS.name(index, part), value);
    }
}

/// The list of the document; `null` for none.
pub(crate) fn document(form: &Form) -> Value {
    match ROWS.count(form) {
        0 => Value::Null,
        count => (0..count).map(|index| header(form, index)).collect(),
    }
}

fn header(form: &Form, index: usize) -> Value {
    let filled = |part| form.filled(&ROWS.name(index, part));
    let kind = filled(TYPE);
    let properties = match kind {
        Some(DYNAMIC) => json!({ "sourceField": filled(SOURCE) }),
        Some(_) | None => {
            // White space may be a part of it.
            let value = form.raw(&ROWS.name(index, VALUE));
            json!({
                "value": (!value.is_empty()).then_some(value),
                "isSecret": form.is_on(&ROWS.name(index, IS_SECRET)),
            })
        }
    };
    json!({ NAME: filled(NAME), TYPE: kind, "properties": properties })
}

/// Too many of them are told by the last one.
pub(crate) fn place(form: &Form, refusal: Refusal) -> Refusal {
    if refusal.target.rsplit('.').next() != Some(HEADERS) {
        return refusal;
    }
    let last = ROWS.count(form).saturating_sub(1);
    let target = ROWS.name(last, NAME);
    Refusal { target, ..refusal }
}

/// Fills in every row that there can be with a header that is allowed.
pub(crate) fn set_examples(form: &mut Form) {
    for index in 0..DELIVERY_ATTRIBUTES_MAX {
        let name = format!("X-Example-{index}");
        let example = json!({ NAME: name, TYPE: STATIC, "properties": { "value": "1" } });
        put(form, index, &example);
    }
}

/// Does what a button of the rows says; `None` if there is no such button.
pub(crate) fn apply(button: &str, form: &mut Form) -> Option<()> {
    if button != ADD {
        ROWS.remove(form, button.strip_prefix(REMOVE)?.parse().ok()?);
        return Some(());
    }
    let index = ROWS.count(form);
    if index < DELIVERY_ATTRIBUTES_MAX {
        put(form, index, &json!({ TYPE: STATIC }));
    }
    Some(())
}

/// In a few words.
pub(crate) fn summary(form: &Form) -> String {
    let names = (0..ROWS.count(form)).map(|index| form.raw(&ROWS.name(index, NAME)).trim());
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// The fields for the headers in the form; `stored` are names of secret ones that are stored.
pub(crate) fn fields(form: &Form, stored: &[&str]) -> HeaderFields {
    let count = ROWS.count(form);
    HeaderFields {
        rows: (0..count).map(|index| row(form, index, stored)).collect(),
        add: (count < DELIVERY_ATTRIBUTES_MAX).then_some(ADD),
    }
}

fn row(form: &Form, index: usize, stored: &[&str]) -> HeaderFieldRow {
    let title = format!("Header {}", index + 1);
    let name = |part| ROWS.name(index, part);
    let kinds = [
        (STATIC, "The same for every event"),
        (DYNAMIC, "Taken from the event"),
    ];
    let own = form.text(&name(NAME));
    let keeps = stored.iter().any(|each| each.eq_ignore_ascii_case(own));
    let fields = [
        Field::line(&name(NAME), "Name", form).mono(),
        Field::choice(&name(TYPE), "Value is", &kinds, form),
        value_field(&name(VALUE), form, form.is_on(&name(IS_SECRET)), keeps)
            .only_for("only-static"),
        Field::tick(&name(IS_SECRET), "Secret: it is not shown again", form)
            .only_for("only-static"),
        Field::line(&name(SOURCE), "Field of the event", form)
            .mono()
            .suggesting(KEYS_ID)
            .hint("Such as data.orderId. The header is left out where the event has nothing there.")
            .only_for("only-dynamic"),
    ];
    HeaderFieldRow {
        remove: format!("{REMOVE}{index}"),
        fields: fields.map(|field| field.within(title.as_str())),
        title,
    }
}

fn value_field(name: &str, form: &Form, is_secret: bool, keeps: bool) -> Field {
    let at_most = format!("At most {DELIVERY_ATTRIBUTE_BYTES_MAX} bytes.");
    match (is_secret, keeps) {
        (true, true) => {
            Field::secret(name, "Value", form).hint("Leave it empty to keep the stored one.")
        }
        (true, false) => Field::secret(name, "Value", form).hint(at_most),
        (false, _) => Field::line(name, "Value", form).mono().hint(at_most),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CONTEXT, form};
    use super::super::{changed, new};
    use super::*;
    use crate::model::access::Secret;
    use crate::model::destination::{AttributeValue, DeliveryMode};
    use crate::model::subscription::SubscriptionDefinition;

    fn row_of(name: &'static str, kind: &'static str) -> [(&'static str, &'static str); 2] {
        [
            ("deliveryAttributeMappings[0].name", name),
            ("deliveryAttributeMappings[0].type", kind),
        ]
    }

    fn values(definition: &SubscriptionDefinition) -> Vec<AttributeValue> {
        let mappings = definition.destination.attribute_mappings();
        mappings.iter().map(|each| each.value.clone()).collect()
    }

    #[test]
    fn both_kinds_come_back_and_a_secret_stays() {
        let secret = [
            ("deliveryAttributeMappings[0].properties.value", " hush "),
            ("deliveryAttributeMappings[0].properties.isSecret", "on"),
            ("deliveryAttributeMappings[1].name", "X-Order"),
            ("deliveryAttributeMappings[1].type", DYNAMIC),
            ("deliveryAttributeMappings[1].properties.value", "forgotten"),
            (
                "deliveryAttributeMappings[1].properties.sourceField",
                "data.id",
            ),
        ];
        let fields = [&row_of("X-Key", STATIC)[..], &secret].concat();
        let first = new(&form(&fields), DeliveryMode::Push, &CONTEXT).expect("a definition");
        let expected = [
            AttributeValue::Static {
                value: Secret::new(" hush "),
                is_secret: true,
            },
            AttributeValue::Dynamic {
                source_field: "data.id".to_owned(),
            },
        ];
        assert_eq!(values(&first), expected);

        let kept = [&row_of("x-key", STATIC)[..], &secret[1..]].concat();
        let second = changed(&form(&kept), &first, &CONTEXT).expect("a definition");
        assert_eq!(values(&second), expected);
        let third = changed(&form(&[]), &first, &CONTEXT).expect("a definition");
        assert!(values(&third).is_empty());
        let shown = row_of("X-Key", STATIC);
        let refusal = changed(&form(&shown), &first, &CONTEXT).expect_err("no value");
        assert_eq!(refusal.closeness(&ROWS.name(0, VALUE)), 3, "{refusal:?}");
    }

    #[test]
    fn faults_are_told_by_the_field_of_the_row() {
        for (fields, fault) in [
            (row_of("", STATIC), NAME),
            (row_of("Host", STATIC), NAME),
            (row_of("X", STATIC), VALUE),
            (row_of("X", "Random"), TYPE),
            (row_of("X", ""), TYPE),
            (row_of("X", DYNAMIC), SOURCE),
        ] {
            let refusal = new(&form(&fields), DeliveryMode::Push, &CONTEXT).expect_err(fault);
            let closeness = refusal.closeness(&ROWS.name(0, fault));
            assert_eq!(
                closeness,
                1 + fault.split('.').count(),
                "{fields:?} {refusal:?}"
            );
        }
        let value = ("deliveryAttributeMappings[0].properties.value", "x");
        let host = [&row_of("Host", STATIC)[..], &[value]].concat();
        let refusal = new(&form(&host), DeliveryMode::Push, &CONTEXT).expect_err("Host");
        assert_eq!(refusal.closeness(&ROWS.name(0, NAME)), 2, "{refusal:?}");
    }

    #[test]
    fn rows_are_added_up_to_the_most_and_removed() {
        let mut form = Form::default();
        for index in 0..2 * DELIVERY_ATTRIBUTES_MAX {
            apply(ADD, &mut form).expect("a button");
            form.set(ROWS.name(index.min(9), NAME), format!("X-{index}"));
        }
        assert_eq!(ROWS.count(&form), DELIVERY_ATTRIBUTES_MAX);
        assert!(fields(&form, &[]).add.is_none());
        apply("remove-header-1", &mut form).expect("a button");
        assert_eq!(form.text(&ROWS.name(1, NAME)), "X-2");
        assert_eq!(ROWS.count(&form), DELIVERY_ATTRIBUTES_MAX - 1);
        assert!(apply("remove-1", &mut form).is_none());
        let refusal = place(
            &form,
            Refusal::of("properties.deliveryAttributeMappings", "no"),
        );
        assert_eq!(refusal.target, "deliveryAttributeMappings[8].name");
    }
}
