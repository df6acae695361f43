//! Forms over the documents of the management API. A table of rows says which property is filled in with what; from
//! it come the fields, the document that a form stands for, the form of a document, and what pages say of it. What is
//! wrong with a document is found by the API's own reader.

use serde_json::{Map, Value, json};

use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::reader::Reader;
use crate::admin::widgets::print;

/// One property, and what it is filled in with.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Its path below the place of its part; also the name of the field.
    name: &'static str,
    label: &'static str,
    kind: Kind,
    hint: &'static str,
    /// What it may be, said before the hint.
    range: Option<(u32, u32)>,
    /// It is asked for these values of another field alone.
    only: Option<(&'static str, &'static [&'static str])>,
    /// What pages say where nothing is set.
    unset: &'static str,
    /// The id of a list of suggestions; empty for none.
    suggestions: &'static str,
    mono: bool,
    /// Whether it is no property of the document.
    apart: bool,
}

/// What a property is filled in with.
#[derive(Clone, Copy)]
enum Kind {
    Line,
    Url,
    Whole,
    Decimal,
    Moment,
    Tick,
    Choice(&'static [(&'static str, &'static str)]),
    /// Kept while it is left empty, and never shown.
    Secret,
    /// A secret that white space may be a part of.
    Password,
    /// A password if the field of that name is on.
    Hidable(&'static str),
    /// Texts with commas between them.
    Words,
    /// Texts, one per line.
    Lines(u32),
    Pem,
    /// A secret key in PEM.
    Key,
}

/// Properties of one object of the document.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// The path of the object; empty for the document.
    pub(crate) at: &'static str,
    pub(crate) rows: &'static [Row],
}

/// Parts under a title.
#[derive(Clone, Copy)]
pub(crate) struct RowSection {
    pub(crate) title: &'static str,
    pub(crate) parts: &'static [Part],
}

/// A list of the document whose elements are groups of fields: `advancedFilters[2].key`.
#[derive(Clone, Copy)]
pub(crate) struct RowList {
    pub(crate) name: &'static str,
    pub(crate) noun: &'static str,
    pub(crate) most: usize,
    /// Browsers send the first of them for every element, filled in or not.
    pub(crate) rows: &'static [Row],
}

/// An element of a list as fields.
pub(crate) struct ListElement {
    pub(crate) title: String,
    /// What the button says that removes it.
    pub(crate) remove: String,
    pub(crate) fields: Vec<Field>,
}

#[rustfmt::skip] // a table
impl Row {
    pub(crate) const fn line(name: &'static str, label: &'static str) -> Self { Self::new(name, label, Kind::Line) }
    pub(crate) const fn url(name: &'static str, label: &'static str) -> Self { Self::new(name, label, Kind::Url).mono() }
    pub(crate) const fn whole(name: &'static str, label: &'static str) -> Self { Self::new(name, label, Kind::Whole) }
    pub(crate) const fn decimal(name: &'static str, label: &'static str) -> Self { Self::new(name, label, Kind::Decimal) }
    pub(crate) const fn moment(name: &'static str, label: &'static str) -> Self { Self::new(name, label, Kind::Moment) }
    pub(crate) const fn tick(name: &'static str, label: &'static str) -> Self { Self::new(name, label, Kind::Tick) }
    pub(crate) const fn secret(name: &'static str, label: &'static str) -> Self { Self::new(name, label, Kind::Secret) }
    pub(crate) const fn password(name: &'static str, label: &'static str) -> Self { Self::new(name, label, Kind::Password) }
    pub(crate) const fn words(name: &'static str, label: &'static str) -> Self { Self::new(name, label, Kind::Words) }
    pub(crate) const fn pem(name: &'static str, label: &'static str) -> Self { Self::new(name, label, Kind::Pem) }
    pub(crate) const fn key(name: &'static str, label: &'static str) -> Self { Self::new(name, label, Kind::Key) }
    pub(crate) const fn lines(name: &'static str, label: &'static str, rows: u32) -> Self { Self::new(name, label, Kind::Lines(rows)) }
    pub(crate) const fn choice(name: &'static str, label: &'static str, options: &'static [(&'static str, &'static str)]) -> Self { Self::new(name, label, Kind::Choice(options)) }
    pub(crate) const fn hidable(name: &'static str, label: &'static str, by: &'static str) -> Self { Self::new(name, label, Kind::Hidable(by)).mono() }

    pub(crate) const fn hint(self, hint: &'static str) -> Self { Self { hint, ..self } }
    pub(crate) const fn range(self, least: u32, most: u32) -> Self { Self { range: Some((least, most)), ..self } }
    pub(crate) const fn only(self, name: &'static str, values: &'static [&'static str]) -> Self { Self { only: Some((name, values)), ..self } }
    pub(crate) const fn unset(self, unset: &'static str) -> Self { Self { unset, ..self } }
    pub(crate) const fn suggesting(self, suggestions: &'static str) -> Self { Self { suggestions, ..self } }
    pub(crate) const fn mono(self) -> Self { Self { mono: true, ..self } }
    pub(crate) const fn apart(self) -> Self { Self { apart: true, ..self } }

    const fn new(name: &'static str, label: &'static str, kind: Kind) -> Self {
        Self { name, label, kind, hint: "", range: None, only: None, unset: "None", suggestions: "",
            mono: false, apart: false }
    }
}

impl Row {
    /// Whether the choice that it belongs to is made. `list` is what stands before the names of fields.
    fn is_asked(&self, form: &Form, list: &str) -> bool {
        self.only.is_none_or(|(name, values)| {
            let chosen = form.text(&format!("{list}{name}"));
            values.contains(&chosen)
        })
    }

    fn is_secret(&self, form: &Form, list: &str) -> bool {
        let is_hidden = |by: &str| form.is_on(&format!("{list}{by}"));
        matches!(self.kind, Kind::Secret | Kind::Password | Kind::Key)
            || matches!(self.kind, Kind::Hidable(by) if is_hidden(by))
    }

    /// What the field holds where the document has `value`.
    fn filled(&self, value: &Value) -> String {
        let texts = |between: &str| {
            let texts = value.as_array().into_iter().flatten();
            texts.map(text).collect::<Vec<_>>().join(between)
        };
        match (self.kind, value) {
            (Kind::Secret | Kind::Password | Kind::Key, _) => String::new(),
            (Kind::Tick, on) => if *on == true { "on" } else { "" }.to_owned(),
            (Kind::Words, _) => texts(", "),
            (Kind::Lines(_), _) => texts("\n"),
            (_, value) => text(value),
        }
    }

    /// What the document has for the field `name`; what only the API's reader can judge stays as it is.
    fn read(&self, form: &Form, name: &str) -> Value {
        let list = |separator: char| {
            let words = words(form.text(name), separator);
            json!((!words.is_empty()).then_some(words))
        };
        match self.kind {
            Kind::Line | Kind::Url | Kind::Choice(_) | Kind::Secret => json!(form.filled(name)),
            // White space may be a part of it.
            Kind::Password | Kind::Hidable(_) => {
                json!(Some(form.raw(name)).filter(|text| !text.is_empty()))
            }
            Kind::Whole => form.number(name),
            Kind::Decimal => form.decimal(name),
            Kind::Moment => json!(form.filled(name).map(in_utc)),
            Kind::Tick => json!(form.is_on(name)),
            Kind::Words => list(','),
            Kind::Lines(_) => list('\n'),
            Kind::Pem | Kind::Key => {
                let pem = form.filled(name);
                json!(pem.map(|text| format!("{}\n", text.replace("\r\n", "\n"))))
            }
        }
    }

    /// The field of the property at `path`. `is_stored` tells of a secret that is kept if it is left empty.
    fn field(&self, form: &Form, (list, path): (&str, &str), is_stored: bool) -> Field {
        let (name, label) = (&*format!("{list}{}", self.name), self.label);
        let field = match self.kind {
            Kind::Secret | Kind::Password => Field::secret(name, label, form),
            Kind::Hidable(_) if self.is_secret(form, list) => Field::secret(name, label, form),
            Kind::Line | Kind::Whole | Kind::Decimal | Kind::Words | Kind::Hidable(_) => {
                Field::line(name, label, form)
            }
            Kind::Url => Field::url(name, label, form),
            Kind::Moment => Field::moment(name, label, form),
            Kind::Tick => Field::tick(name, label, form),
            Kind::Choice(options) => Field::choice(name, label, options, form),
            Kind::Lines(rows) => Field::area(name, label, rows, form),
            Kind::Pem => Field::area(name, label, 3, form),
            Kind::Key => Field::area(name, label, 3, form).masked(),
        };
        let range = self
            .range
            .map(|(least, most)| format!("{least} to {most}."));
        let kept = is_stored.then(|| "Leave it empty to keep the stored one.".to_owned());
        let hints = [range, kept, Some(self.hint.to_owned())];
        let hints = hints.into_iter().flatten().filter(|hint| !hint.is_empty());
        let classes = self.only.iter().flat_map(|(_, values)| *values);
        let classes: Vec<String> = classes
            .map(|value| format!("only-{}", value.to_ascii_lowercase()))
            .collect();
        let mut field = field.at(path).only_for(classes.join(" "));
        if !matches!(self.kind, Kind::Moment) {
            field = field.hint(hints.collect::<Vec<_>>().join(" "));
        }
        if self.mono {
            field = field.mono();
        }
        if !self.suggestions.is_empty() {
            field = field.suggesting(self.suggestions);
        }
        field
    }

    /// What is set, in words; `None` for what is not asked for or a secret.
    fn said(&self, form: &Form) -> Option<String> {
        let is_told = self.is_asked(form, "") && !self.is_secret(form, "");
        let text = form.text(self.name);
        if !is_told {
            return None;
        }
        if let Kind::Choice(options) = self.kind {
            let chosen = options.iter().find(|(value, _)| *value == text);
            return Some(chosen.map_or(text, |(_, said)| said).to_owned());
        }
        let zone = &Reader::current().zone;
        Some(match (self.kind, text) {
            (Kind::Tick, on) => if on.is_empty() { "No" } else { "Yes" }.to_owned(),
            (_, "") => self.unset.to_owned(),
            (Kind::Pem, _) => "Set".to_owned(),
            (Kind::Moment, at) => {
                let at = zone.moment(at).map(|at| zone.typed(at).replace('T', " "));
                at.unwrap_or_default()
            }
            (_, text) => print::visible(&words(text, '\n').join(", ")),
        })
    }
}

impl Part {
    /// Puts what the document has into the form.
    pub(crate) fn fill(&self, form: &mut Form, document: &Value) {
        for row in self.rows.iter().filter(|row| !row.apart) {
            let found = lookup(document, &join(self.at, row.name));
            let text = row.filled(found.unwrap_or(&Value::Null));
            form.set(row.name, text);
        }
    }

    /// Puts what the form says into the document. What is asked for and left empty is `null`, and so is an object of
    /// which nothing is filled in.
    pub(crate) fn write(&self, form: &Form, document: &mut Value) {
        write(self.rows, form, ("", self.at), document);
    }

    /// The fields; `stored` is the document that the form changes.
    pub(crate) fn fields(&self, form: &Form, stored: &Value) -> Vec<Field> {
        let rows = self.rows.iter();
        let field = |row: &Row| {
            let path = join(self.at, row.name);
            let is_stored = row.is_secret(form, "") && lookup(stored, &path).is_some();
            row.field(form, ("", &path), is_stored)
        };
        rows.map(field).collect()
    }

    /// Labels, and what is set.
    /// `defaults` says what holds where nothing is set.
    pub(crate) fn facts(
        &self,
        form: &Form,
        defaults: &[(&str, String)],
    ) -> Vec<(&'static str, String)> {
        let fact = |row: &Row| {
            let default = defaults.iter().find(|(name, _)| *name == row.name);
            let default = default.filter(|_| form.filled(row.name).is_none());
            let said = row.said(form)?;
            Some((
                row.label,
                default.map_or(said, |(_, default)| default.clone()),
            ))
        };
        self.rows.iter().filter_map(fact).collect()
    }

    /// What is set, in a few words.
    pub(crate) fn summary(&self, form: &Form) -> Vec<String> {
        let filled = self
            .rows
            .iter()
            .filter(|row| form.filled(row.name).is_some());
        let words = filled.filter_map(|row| match (row.kind, row.said(form)?) {
            (Kind::Tick, _) => Some(row.label.to_owned()),
            (Kind::Choice(_), said) => Some(said),
            (_, said) => Some(format!("{}: {said}", row.label)),
        });
        words.collect()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.rows.iter().map(|row| row.name)
    }
}

pub(crate) const fn part(at: &'static str, rows: &'static [Row]) -> Part {
    Part { at, rows }
}

pub(crate) const fn section(title: &'static str, parts: &'static [Part]) -> RowSection {
    RowSection { title, parts }
}

fn write(rows: &[Row], form: &Form, (list, at): (&str, &str), document: &mut Value) {
    let asked = rows
        .iter()
        .filter(|row| !row.apart && row.is_asked(form, list));
    for row in asked {
        let path = join(at, row.name);
        let value = row.read(form, &format!("{list}{}", row.name));
        if !value.is_null() {
            set(document, &path, value);
            continue;
        }
        let whole = join(at, row.name.split('.').next().unwrap_or(row.name));
        if lookup(document, &whole).is_none() {
            set(document, &whole, Value::Null);
        }
    }
}

impl RowSection {
    pub(crate) fn fields(&self, form: &Form, stored: &Value) -> Section {
        let parts = self.parts.iter();
        Section {
            title: self.title,
            fields: parts.flat_map(|part| part.fields(form, stored)).collect(),
        }
    }
}

/// What was parsed, or what could not be read with all that is wrong with the rest.
pub(crate) fn all_of<T>(
    mut unread: Vec<Refusal>,
    parsed: Result<T, Vec<Refusal>>,
) -> Result<T, Vec<Refusal>> {
    match parsed {
        Ok(parsed) if unread.is_empty() => return Ok(parsed),
        Ok(_) => {}
        Err(refusals) => unread.extend(refusals),
    }
    Err(unread)
}

/// Both, or all that is wrong with either.
pub(crate) fn both<A, B>(
    name: Result<A, Refusal>,
    second: Result<B, Vec<Refusal>>,
) -> Result<(A, B), Vec<Refusal>> {
    let (name, refused) = match name {
        Ok(name) => (Some(name), Vec::new()),
        Err(refusal) => (None, vec![refusal]),
    };
    let second = all_of(refused, second)?;
    name.map(|name| (name, second)).ok_or_else(Vec::new)
}

impl RowList {
    /// The name of a field.
    pub(crate) fn name(&self, index: usize, part: &str) -> String {
        format!("{}[{index}].{part}", self.name)
    }

    /// Elements in the form.
    pub(crate) fn count(&self, form: &Form) -> usize {
        (0..)
            .take_while(|index| form.has(&self.name(*index, self.rows[0].name)))
            .count()
    }

    /// What the button says that adds an element; `None` if there is no room for another.
    pub(crate) fn add(&self, form: &Form) -> Option<String> {
        (self.count(form) < self.most).then(|| format!("add-{}", self.noun))
    }

    /// Does what one of its buttons says; `None` if it has no such button.
    pub(crate) fn press(&self, button: &str, form: &mut Form) -> Option<()> {
        let (verb, rest) = button.split_once('-')?;
        let rest = rest.strip_prefix(self.noun)?;
        match verb {
            "add" if rest.is_empty() => {
                let index = self.count(form);
                if index < self.most {
                    self.put(form, index, &Value::Null);
                }
            }
            "remove" => self.remove(form, rest.strip_prefix('-')?.parse().ok()?),
            _ => return None,
        }
        Some(())
    }

    /// Fills in one element.
    pub(crate) fn put(&self, form: &mut Form, index: usize, element: &Value) {
        for row in self.rows {
            let found = lookup(element, row.name).unwrap_or(&Value::Null);
            form.set(self.name(index, row.name), row.filled(found));
        }
    }

    /// Fills in the elements of the document's list at `path`.
    pub(crate) fn fill(&self, form: &mut Form, document: &Value, path: &str) {
        self.clear(form);
        let list = lookup(document, path).and_then(Value::as_array);
        for (index, element) in list.into_iter().flatten().enumerate() {
            self.put(form, index, element);
        }
    }

    /// Puts the elements into the document; `null` for none.
    pub(crate) fn write(&self, form: &Form, document: &mut Value, path: &str) {
        let element = |index| {
            let mut element = json!({});
            write(self.rows, form, (&self.name(index, ""), ""), &mut element);
            element
        };
        let elements: Vec<Value> = (0..self.count(form)).map(element).collect();
        set(
            document,
            path,
            json!((!elements.is_empty()).then_some(elements)),
        );
    }

    /// The elements of the document's list at `path` as fields.
    pub(crate) fn elements(&self, form: &Form, path: &str) -> Vec<ListElement> {
        let field = |index, row: &Row| {
            let list = self.name(index, "");
            let path = format!("{path}[{index}].{}", row.name);
            row.field(form, (&list, &path), row.is_secret(form, &list))
        };
        let fields = |index| self.rows.iter().map(|row| field(index, row)).collect();
        let element = |index| self.element(index, fields(index));
        (0..self.count(form)).map(element).collect()
    }

    pub(crate) fn element(&self, index: usize, fields: Vec<Field>) -> ListElement {
        let (first, rest) = self.noun.split_at(1);
        let title = format!("{}{rest} {}", first.to_ascii_uppercase(), index + 1);
        let fields = fields.into_iter();
        ListElement {
            remove: format!("remove-{}-{index}", self.noun),
            fields: fields.map(|field| field.within(title.as_str())).collect(),
            title,
        }
    }

    pub(crate) fn clear(&self, form: &mut Form) {
        (0..self.count(form))
            .rev()
            .for_each(|last| self.remove(form, last));
    }

    /// Takes an element out; later ones move up.
    fn remove(&self, form: &mut Form, index: usize) {
        let count = self.count(form);
        if index >= count {
            return;
        }
        for row in self.rows {
            for next in index + 1..count {
                let text = form.raw(&self.name(next, row.name)).to_owned();
                form.set(self.name(next - 1, row.name), text);
            }
            form.remove(&self.name(count - 1, row.name));
        }
    }
}

/// A value as a field holds it.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.is_empty() => String::new(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => format!("{value:#}"),
    }
}

/// The texts between separators, without white space around them.
pub(crate) fn words(text: &str, separator: char) -> Vec<&str> {
    let words = text.split(separator).map(str::trim);
    words.filter(|word| !word.is_empty()).collect()
}

pub(crate) fn pairs(text: &str, between: &str) -> Result<Value, String> {
    let sign = between.trim();
    let pair = |line: &str| {
        let pair = line
            .split_once(sign)
            .map(|(name, value)| (name.trim(), value.trim()));
        let (name, value) = pair
            .ok_or_else(|| format!("{line:?} is incomplete: write a name, {sign} and a value."))?;
        Ok((name.to_owned(), json!(value)))
    };
    let pairs: Result<Map<_, _>, String> = words(text, '\n').into_iter().map(pair).collect();
    pairs.map(Value::Object)
}

/// What was typed by the clocks of the reader, in UTC; what is no moment stays as it is.
fn in_utc(text: &str) -> String {
    let at = Reader::current().zone.moment(text);
    at.map_or_else(|| text.to_owned(), |at| at.to_string())
}

fn join(at: &str, name: &str) -> String {
    match at {
        "" => name.to_owned(),
        at => format!("{at}.{name}"),
    }
}

pub(crate) fn lookup<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(document, |value, name| value.get(name))
}

/// Sets what is at the path, and makes the objects on the way.
pub(crate) fn set(document: &mut Value, path: &str, value: Value) {
    let found = path
        .split('.')
        .fold(document, |object, name| &mut object[name]);
    *found = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Part = Part {
        at: "properties",
        rows: &[
            Row::whole("count", "Count").range(1, 3).hint("Few."),
            Row::choice(
                "login.type",
                "Login",
                &[("", "None"), ("Basic", "By password")],
            ),
            Row::line("login.user", "User").only("login.type", &["Basic"]),
            Row::password("login.password", "Password").only("login.type", &["Basic"]),
            Row::words("labels", "Labels"),
            Row::tick("open", "Open"),
        ],
    };
    const LIST: RowList = RowList {
        name: "headers",
        noun: "header",
        most: 2,
        rows: &[
            Row::line("name", "Name"),
            Row::hidable("properties.value", "Value", "properties.isSecret"),
            Row::tick("properties.isSecret", "Secret"),
        ],
    };

    fn form(fields: &[(&str, &str)]) -> Form {
        Form::of_pairs(fields.iter())
    }

    #[test]
    fn a_form_becomes_a_document_and_the_document_the_form_again() {
        let fields = [
            ("count", "2"),
            ("login.type", "Basic"),
            ("login.user", "ann"),
            ("labels", "a, b"),
            ("open", "on"),
        ];
        let mut document = json!({});
        let typed = [&fields[..], &[("login.password", " hush ")]].concat();
        PART.write(&form(&typed), &mut document);
        let login = json!({ "type": "Basic", "user": "ann", "password": " hush " });
        let expected = json!({ "properties": { "count": 2, "login": login, "labels": ["a", "b"],
            "open": true } });
        assert_eq!(document, expected);
        let mut filled = Form::default();
        PART.fill(&mut filled, &document);
        for (name, value) in fields {
            assert_eq!(filled.raw(name), value, "{name}");
        }
        assert_eq!(filled.raw("login.password"), "");
    }

    #[test]
    fn what_is_left_empty_is_null_and_what_is_not_asked_for_is_left_out() {
        let mut document = json!({});
        let typed = [("login.user", "typed before"), ("count", "many")];
        PART.write(&form(&typed), &mut document);
        let expected = json!({ "properties": { "count": "many", "login": null, "labels": null,
            "open": false } });
        assert_eq!(document, expected);
    }

    #[test]
    fn what_is_set_is_said_but_no_secret() {
        let typed = form(&[
            ("login.type", "Basic"),
            ("login.password", "hush"),
            ("open", "on"),
        ]);
        let facts = [
            ("Count", "None"),
            ("Login", "By password"),
            ("User", "None"),
            ("Labels", "None"),
            ("Open", "Yes"),
        ];
        assert_eq!(
            PART.facts(&typed, &[]),
            facts.map(|(label, said)| (label, said.to_owned()))
        );
        assert_eq!(PART.summary(&typed), ["By password", "Open"]);
    }

    #[test]
    fn elements_are_added_up_to_the_most_and_removed() {
        let mut form = Form::default();
        for name in ["a", "b", "c"] {
            LIST.press("add-header", &mut form).expect("a button");
            form.set(LIST.name(LIST.count(&form) - 1, "name"), name);
        }
        assert_eq!((LIST.count(&form), LIST.add(&form)), (2, None));
        LIST.press("remove-header-0", &mut form).expect("a button");
        assert_eq!((LIST.count(&form), form.text("headers[0].name")), (1, "c"));
        LIST.press("remove-header-7", &mut form)
            .expect("nothing to do");
        for button in ["remove-header", "remove-header-x", "add-clause", "dance"] {
            assert_eq!(LIST.press(button, &mut form), None, "{button}");
        }
        form.set("headers[0].properties.value", " v ");
        form.set("headers[0].properties.isSecret", "on");
        let mut document = json!({});
        LIST.write(&form, &mut document, "all.headers");
        let header = json!({ "name": "c", "properties": { "value": " v ", "isSecret": true } });
        assert_eq!(document, json!({ "all": { "headers": [header] } }));
    }
}
