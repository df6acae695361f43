//! Evaluates the ARM template expressions that occur in names and properties of messaging resources.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::member;

/// The maximum nesting depth of parameters, variables and calls. It also ends a cycle.
const DEPTH_MAX: usize = 32;

const TOO_DEEP: &str =
    "it is nested too deeply, or parameters and variables refer to each other too often";

/// The maximum number of values and calls for one file, many times the need of 20,000 objects. Every copy of a value
/// counts.
const STEPS_MAX: usize = 2_000_000;

/// The number of bytes of a text that count as one step.
const STEP_BYTES: usize = 16;

const TOO_LARGE: &str = "the template comes to too many values, or to texts that are too long";

/// The maximum length in bytes of an evaluated text. It is more than the longest property has.
const TEXT_BYTES_MAX: usize = 65_536;

/// The values that expressions of a template can refer to.
pub(super) struct ExpressionScope<'a> {
    /// The declarations of the template.
    pub(super) parameters: &'a Value,
    /// Values of parameters by their names.
    pub(super) given: Map<String, Value>,
    pub(super) variables: &'a Value,
    /// The steps of evaluation so far, in all templates of a file.
    pub(super) steps: &'a Cell<usize>,
}

impl ExpressionScope<'_> {
    /// Returns a value with its expressions evaluated. Expressions that cannot be evaluated become `null` and are added
    /// to `unresolved` with their JSON paths.
    pub(super) fn resolve(&self, value: &Value, path: &str, unresolved: &mut Vec<String>) -> Value {
        match value {
            Value::String(_) => self.evaluate(value, 0).unwrap_or_else(|problem| {
                unresolved.push(format!("{path}: {problem}"));
                Value::Null
            }),
            Value::Array(elements) => {
                let resolved = elements
                    .iter()
                    .enumerate()
                    .map(|(at, value)| self.resolve(value, &format!("{path}[{at}]"), unresolved));
                Value::Array(resolved.collect())
            }
            Value::Object(members) => {
                if members.get("copy").is_some_and(Value::is_array) {
                    unresolved.push(format!("{path}.copy: loops are not supported"));
                }
                let resolved = members.iter().map(|(name, value)| {
                    let value = self.resolve(value, &format!("{path}.{name}"), unresolved);
                    (name.clone(), value)
                });
                Value::Object(resolved.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Returns a value with its expressions evaluated, or the first problem as the error.
    fn evaluate(&self, value: &Value, depth: usize) -> Result<Value, String> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if depth > DEPTH_MAX || steps > STEPS_MAX {
            return Err(TOO_DEEP.to_owned());
        }
        match value {
            Value::String(text) => match text.strip_prefix('[') {
                Some(rest) if rest.starts_with('[') => Ok(rest.into()),
                Some(rest) if rest.ends_with(']') => self.expression(rest, depth),
                _ => Ok(value.clone()),
            },
            Value::Array(elements) => elements
                .iter()
                .map(|value| self.evaluate(value, depth + 1))
                .collect(),
            Value::Object(members) => {
                let evaluated = members
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), self.evaluate(value, depth + 1)?)));
                Ok(Value::Object(evaluated.collect::<Result<_, String>>()?))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
        }
    }

    /// Adds the steps of a newly made value. Fails if there are too many steps.
    fn spend(&self, value: &Value) -> Result<(), String> {
        let steps = self.steps.get() + weight(value);
        self.steps.set(steps);
        if steps > STEPS_MAX {
            return Err(TOO_LARGE.to_owned());
        }
        Ok(())
    }

    /// Evaluates an expression. `rest` is the text after the opening bracket.
    fn expression(&self, rest: &str, depth: usize) -> Result<Value, String> {
        let mut reader = ExpressionReader { scope: self, rest };
        let value = reader.value(depth)?;
        match reader.next() {
            Some(']') if reader.rest.len() == 1 => Ok(value),
            _ => Err(format!("\"[{rest}\" is no expression")),
        }
    }

    fn parameter(&self, name: &str, depth: usize) -> Result<Value, String> {
        if let Some((_, given)) = self
            .given
            .iter()
            .find(|(it, _)| it.eq_ignore_ascii_case(name))
        {
            return Ok(given.clone());
        }
        let declared = member(self.parameters, name);
        let default = member(declared, "defaultValue");
        if default.is_null() && member(declared, "nullable") != &json!(true) {
            return Err(format!(
                "the parameter {name} has no value; give it one with --parameters"
            ));
        }
        self.evaluate(default, depth + 1).map_err(|problem| {
            format!("{problem}; give the parameter {name} a value with --parameters")
        })
    }

    /// Calls a template function. Functions that need data outside the template are not supported.
    fn call(&self, name: &str, arguments: &[Value], depth: usize) -> Result<Value, String> {
        let text = |at: usize| arguments.get(at).map(written).unwrap_or_default();
        let answer = match name.to_ascii_lowercase().as_str() {
            "parameters" => self.parameter(&text(0), depth)?,
            "variables" => {
                let name = text(0);
                let variable = member(self.variables, &name);
                if variable.is_null() {
                    return Err(format!("there is no variable {name}"));
                }
                self.evaluate(variable, depth + 1)?
            }
            "concat" => match arguments {
                [Value::Array(_), ..] => {
                    let lists = arguments.iter().filter_map(Value::as_array);
                    lists.flatten().cloned().collect()
                }
                _ => concat(arguments)?.into(),
            },
            "format" => format(&text(0), arguments.get(1..).unwrap_or_default())?.into(),
            "resourceid" | "subscriptionresourceid" | "tenantresourceid" => {
                id("", arguments).into()
            }
            "extensionresourceid" => id(&text(0), arguments.get(1..).unwrap_or_default()).into(),
            "resourcegroup" => json!({ "location": super::arm::LOCATION }),
            "tolower" => text(0).to_lowercase().into(),
            "toupper" => text(0).to_uppercase().into(),
            "string" => text(0).into(),
            "createarray" => arguments.to_vec().into(),
            "true" => true.into(),
            "false" => false.into(),
            "null" => Value::Null,
            _ => return Err(format!("{name}() is known to Azure alone")),
        };
        let is_too_long = |text: &str| text.len() > TEXT_BYTES_MAX;
        if answer.as_str().is_some_and(is_too_long) {
            Err(format!("{name}() gives more than {TEXT_BYTES_MAX} bytes"))
        } else {
            Ok(answer)
        }
    }
}

/// Converts a value to text, for use within a longer text.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Null => String::new(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Returns the steps that a value counts for.
fn weight(value: &Value) -> usize {
    1 + match value {
        Value::String(text) => text.len() / STEP_BYTES,
        Value::Array(elements) => elements.iter().map(weight).sum(),
        Value::Object(members) => members.values().map(weight).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn concat(arguments: &[Value]) -> Result<String, String> {
    let mut text = String::new();
    for argument in arguments {
        append(&mut text, &written(argument))?;
    }
    Ok(text)
}

/// Adds to a text, unless it becomes too long.
fn append(text: &mut String, more: &str) -> Result<(), String> {
    if text.len() + more.len() > TEXT_BYTES_MAX {
        return Err(format!("a text has more than {TEXT_BYTES_MAX} bytes"));
    }
    text.push_str(more);
    Ok(())
}

/// Replaces `{0}`, `{1}` and so on with the arguments. A doubled brace stands for a single brace.
fn format(pattern: &str, arguments: &[Value]) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        if from.starts_with("{{") || from.starts_with("}}") {
            text.push_str(&from[..1]);
            rest = &from[2..];
            continue;
        }
        let problem = || format!("format() cannot read \"{pattern}\"");
        let (place, behind) = from[1..].split_once('}').ok_or_else(problem)?;
        let place: usize = place.parse().map_err(|_| problem())?;
        append(
            &mut text,
            &written(arguments.get(place).ok_or_else(problem)?),
        )?;
        rest = behind;
    }
    Ok(text + rest)
}

/// Returns a resource id, made of a resource type and a name for each segment of the type. Arguments before the type,
/// such as the subscription and the resource group, are ignored.
fn id(of: &str, arguments: &[Value]) -> String {
    let texts: Vec<String> = arguments.iter().map(written).collect();
    let mut words = texts
        .iter()
        .skip_while(|word| !word.contains('/') || word.starts_with('/'));
    let kind = words.next().map_or("", String::as_str);
    let mut segments = kind.split('/');
    let mut id = format!("{of}/providers/{}", segments.next().unwrap_or_default());
    for (segment, name) in segments.zip(words) {
        id.push_str(&format!("/{segment}/{name}"));
    }
    id
}

/// Parses and evaluates an expression.
struct ExpressionReader<'a> {
    scope: &'a ExpressionScope<'a>,
    rest: &'a str,
}

impl<'a> ExpressionReader<'a> {
    fn next(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn expect(&mut self, mark: char) -> Result<(), String> {
        match self.next() {
            Some(found) if found == mark => {
                self.rest = &self.rest[mark.len_utf8()..];
                Ok(())
            }
            _ => Err(format!("{mark} is missing before \"{}\"", self.rest)),
        }
    }

    fn word(&mut self) -> &'a str {
        let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let (word, rest) = self
            .rest
            .split_at(self.rest.find(end).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err(TOO_DEEP.to_owned());
        }
        let mut value = match self.next() {
            Some('\'') => self.text()?,
            Some(digit) if digit.is_ascii_digit() || digit == '-' => {
                let end = |c: char| !c.is_ascii_digit() && c != '-';
                let end = self.rest.find(end).unwrap_or(self.rest.len());
                let (number, rest) = self.rest.split_at(end);
                self.rest = rest;
                let number: i64 = number
                    .parse()
                    .map_err(|_| format!("{number} is no number"))?;
                number.into()
            }
            _ => {
                let name = self.word();
                self.expect('(')?;
                let mut arguments = Vec::new();
                while self.next() != Some(')') {
                    if !arguments.is_empty() {
                        self.expect(',')?;
                    }
                    let argument = self.value(depth + 1)?;
                    self.scope.spend(&argument)?;
                    arguments.push(argument);
                }
                self.expect(')')?;
                self.scope.call(name, &arguments, depth + 1)?
            }
        };
        loop {
            let (key, found) = match self.next() {
                Some('.') => {
                    self.expect('.')?;
                    let name = self.word();
                    (format!(".{name}"), member(&value, name).clone())
                }
                Some('[') => {
                    self.expect('[')?;
                    let key = self.value(depth + 1)?;
                    self.expect(']')?;
                    let at = key.as_u64().and_then(|at| usize::try_from(at).ok());
                    let found = match (&key, at) {
                        (Value::String(name), _) => member(&value, name).clone(),
                        (_, Some(at)) => value.get(at).cloned().unwrap_or_default(),
                        _ => Value::Null,
                    };
                    (format!("[{}]", written(&key)), found)
                }
                _ => return Ok(value),
            };
            if found.is_null() {
                return Err(format!("{key} is not there, or known to Azure alone"));
            }
            value = found;
        }
    }

    /// Reads a text in single quotes, in which two single quotes stand for one.
    fn text(&mut self) -> Result<Value, String> {
        let mut text = String::new();
        let mut rest = &self.rest[1..];
        loop {
            let (before, behind) = rest.split_once('\'').ok_or("a text has no end")?;
            text.push_str(before);
            match behind.strip_prefix('\'') {
                Some(behind) => {
                    text.push('\'');
                    rest = behind;
                }
                None => {
                    self.rest = behind;
                    return Ok(text.into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(expression: &str) -> Result<Value, String> {
        let parameters = json!({
            "name": { "defaultValue": "[concat(variables('prefix'), '-orders')]" },
            "place": { "defaultValue": "[resourceGroup().location]" },
            "site": { "defaultValue": "[uniqueString(resourceGroup().id)]" },
            "url": { "type": "secureString" },
            "all": { "defaultValue": { "names": ["a", "b"] } },
        });
        let variables =
            json!({ "prefix": "acme", "a": "[variables('b')]", "b": "[variables('a')]" });
        let scope = ExpressionScope {
            parameters: &parameters,
            given: Map::from_iter([("Given".to_owned(), json!("[as it is]"))]),
            variables: &variables,
            steps: &Cell::new(0),
        };
        scope.evaluate(&json!(expression), 0)
    }

    #[test]
    fn what_the_template_says_is_known() {
        for (expression, expected) in [
            ("plain", json!("plain")),
            ("[[literal]", json!("[literal]")),
            ("[parameters('name')]", json!("acme-orders")),
            ("[parameters('given')]", json!("[as it is]")),
            ("[toUpper( concat('it''s ', 7) )]", json!("IT'S 7")),
            ("[parameters('place')]", json!("local")),
            ("[parameters('all').names[1]]", json!("b")),
            ("[parameters('all')['names'][0]]", json!("a")),
            ("[format('{0}/{{x}}/{1}', 'a', -1)]", json!("a/{x}/-1")),
            ("[createArray('a', true())]", json!(["a", true])),
            (
                "[resourceId('group', 'Microsoft.EventGrid/topics', parameters('name'))]",
                json!("/providers/Microsoft.EventGrid/topics/acme-orders"),
            ),
            (
                "[extensionResourceId(resourceId('A.B/c', 'x'), 'D.E/f', 'y')]",
                json!("/providers/A.B/c/x/providers/D.E/f/y"),
            ),
        ] {
            assert_eq!(evaluated(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn copies_count_and_texts_are_bounded_as_they_grow() {
        let numbers: Vec<u32> = (0..100_000).collect();
        let parameters = json!({ "p": { "defaultValue": numbers } });
        let variables = json!({ "t": "x".repeat(60_000) });
        let steps = Cell::new(0);
        let scope = ExpressionScope {
            parameters: &parameters,
            given: Map::new(),
            variables: &variables,
            steps: &steps,
        };
        let many = |part: &str| [part; 800].join(", ");
        let lists = format!("[string(concat({}))]", many("parameters('p')"));
        assert!(scope.evaluate(&json!(lists), 0).is_err());
        assert!(steps.get() < 2 * STEPS_MAX, "{}", steps.get());
        steps.set(0);
        let long = format!("[concat({})]", many("variables('t')"));
        assert!(scope.evaluate(&json!(long), 0).is_err());
        let pattern = "{0}".repeat(40_000);
        let long = format!("[format('{pattern}', variables('t'))]");
        steps.set(0);
        let problem = scope.evaluate(&json!(long), 0).unwrap_err();
        assert_eq!(problem, "a text has more than 65536 bytes");
    }

    #[test]
    fn what_it_does_not_say_is_named() {
        for (expression, expected) in [
            (
                "[parameters('url')]",
                "the parameter url has no value; give it one with --parameters",
            ),
            ("[parameters('site')]", ".id is not there"),
            (
                "[uniqueString('x')]",
                "uniqueString() is known to Azure alone",
            ),
            (
                "[reference(resourceId('A.B/c', 'x')).host]",
                "reference() is known to Azure alone",
            ),
            ("[variables('none')]", "there is no variable none"),
            ("[variables('a')]", "refer to each other too often"),
            ("[concat('a' 'b')]", ", is missing before \"'b')]\""),
            ("[concat('a]", "a text has no end"),
            ("[concat('a') 'b']", "is no expression"),
            ("[format('{1}', 'a')]", "format() cannot read \"{1}\""),
            ("[99999999999999999999]", "is no number"),
        ] {
            let problem = evaluated(expression).unwrap_err();
            assert!(problem.contains(expected), "{expression}: {problem}");
        }
    }
}
