//! `everpost import`: files of other products, translated to ours and applied.

mod arm;
mod expression;
mod simulator;

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::{ApplyOptions, Format, apply, save, write};
use crate::app::cli::confirm::Misuse;
use crate::app::cli::output::{note, plural, print_file, printable};
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::configuration_files::ConfiguredObject;
use crate::app::files;
use crate::model::limits::CONFIGURATION_BYTES_MAX;

#[derive(Subcommand, Debug)]
pub(in crate::app::cli) enum ImportCommand {
    /// Take over Config.json of Microsoft's Service Bus emulator: queues, topics, subscriptions, rules
    ServicebusEmulator(ImportConfiguration),
    /// Take over appsettings.json of AzureEventGridSimulator: topics and subscribers
    EventgridSimulator(ImportConfiguration),
    /// Take over an ARM template: topics and event subscriptions of Event Grid, and entities of Service Bus
    Arm {
        #[command(flatten)]
        import: ImportConfiguration,
        /// A file with values for the template's parameters
        #[arg(long = "parameters", value_name = "FILE")]
        parameters: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
pub(in crate::app::cli) struct ImportConfiguration {
    file: PathBuf,
    /// Write the objects to this file instead of applying them; - is standard output
    #[arg(long = "output", value_name = "FILE")]
    to_file: Option<PathBuf>,
    /// Change nothing if something cannot be taken over; the exit code is 3 then
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    how: ApplyOptions,
}

impl Run for ImportCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let mut translation = Translation::default();
        let to = &mut translation;
        let import = match self {
            Self::ServicebusEmulator(import) => {
                of_emulator(&read(&import.file)?, to);
                import
            }
            Self::EventgridSimulator(import) => {
                simulator::of_simulator(&read(&import.file)?, to);
                import
            }
            Self::Arm { import, parameters } => {
                let values = parameters.map(|file| read(&file)).transpose()?;
                arm::of_template(&read(&import.file)?, &values.unwrap_or_default(), to);
                import
            }
        };
        translation.told(&import)?;
        if let Some(output) = &import.to_file {
            let text = write(&translation.objects, Format::Yaml)?;
            return if output.as_os_str() == "-" {
                Ok(print_file(&text)?)
            } else {
                save(output, &text)
            };
        }
        let place = import.file.display().to_string();
        let objects = translation
            .objects
            .into_iter()
            .map(|value| ConfiguredObject {
                file: import.file.clone(),
                place: place.clone(),
                value,
            });
        apply(server, &objects.collect::<Vec<_>>(), &import.how).await
    }
}

/// Objects, and what does not carry over.
#[derive(Default)]
struct Translation {
    objects: Vec<Value>,
    /// Differences from the original that the user should know about.
    notes: Vec<String>,
    left_out: Vec<String>,
    /// Problems, each with its JSON path, for which the product that the file is meant for would not accept it.
    faults: Vec<String>,
}

/// Nothing was imported, or with `--strict` not all: exit code 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in crate::app::cli) struct Incomplete(String);

impl Translation {
    fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    fn leave_out(&mut self, text: String) {
        self.left_out.push(text);
    }

    /// Leaves out the members of an object whose names are not known, in any letter case.
    fn leave_out_others(&mut self, of: &Value, known: &[&str], title: &str) {
        let members = of.as_object().into_iter().flatten();
        let is_known = |name: &str| known.iter().any(|known| known.eq_ignore_ascii_case(name));
        for (name, _) in members.filter(|(name, _)| !is_known(name)) {
            self.leave_out(format!(
                "{title}.{name} is left out: there is nothing like it here"
            ));
        }
    }

    /// Says what does not carry over. It is an error if nothing does, or with `--strict` not all.
    fn told(&self, import: &ImportConfiguration) -> anyhow::Result<()> {
        if !self.faults.is_empty() {
            let faults = self.faults.join("\n  ");
            bail!(Misuse(format!(
                "nothing was changed, because of\n  {faults}"
            )));
        }
        for text in self.notes.iter().chain(&self.left_out) {
            note(&format!("note: {}", printable(text)));
        }
        let count = match self.left_out.len() {
            0 => "nothing was left out".to_owned(),
            count => format!(
                "{} left out",
                plural(count as u64, "thing was", "things were")
            ),
        };
        if self.objects.is_empty() {
            let problem = format!("{} holds nothing to import; {count}", import.file.display());
            bail!(Incomplete(problem));
        }
        if import.strict && !self.left_out.is_empty() {
            bail!(Incomplete(format!("{count}, and nothing was changed")));
        }
        if !self.left_out.is_empty() {
            note(&format!("note: {count}"));
        }
        Ok(())
    }
}

/// Reads JSON, in which such files have comments. YAML is not far from that: comments are taken out first.
fn read(path: &Path) -> anyhow::Result<Value> {
    let misuse = |problem: String| anyhow!(Misuse(format!("{}: {problem}", path.display())));
    let text = files::text(path, CONFIGURATION_BYTES_MAX)
        .map_err(|problem| misuse(format!("it {problem}")))?;
    parse(&text).map_err(|error| misuse(error.to_string()))
}

fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&without_comments(text.trim_start_matches('\u{feff}')))
}

/// Returns the objects of an ARM template, without values for its parameters.
#[cfg(any(test, fuzzing))]
pub(in crate::app) fn objects_of_template(text: &str) -> Vec<Value> {
    let mut translation = Translation::default();
    if let Ok(template) = parse(text) {
        arm::of_template(&template, &Value::Null, &mut translation);
    }
    translation.objects
}

/// Returns JSON without its comments. The newlines in them are kept, so that the line numbers of errors are right.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut is_string = false;
    while let Some(c) = rest.next() {
        match (is_string, c, rest.peek()) {
            (true, '\\', Some(_)) => {
                kept.push(c);
                kept.extend(rest.next());
            }
            (_, '"', _) => {
                is_string = !is_string;
                kept.push(c);
            }
            (false, '/', Some('/')) => {
                while rest.peek().is_some_and(|c| *c != '\n') {
                    rest.next();
                }
            }
            (false, '/', Some('*')) => {
                let mut before = ' ';
                rest.next();
                for c in rest.by_ref() {
                    if c == '\n' {
                        kept.push(c);
                    }
                    if (before, c) == ('*', '/') {
                        break;
                    }
                    before = c;
                }
            }
            _ => kept.push(c),
        }
    }
    kept
}

/// A member in any letter case, as .NET reads them.
fn member<'a>(value: &'a Value, name: &str) -> &'a Value {
    let members = value.as_object().into_iter().flatten();
    let mut found = members.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    found.next().map_or(&Value::Null, |(_, value)| value)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    member(value, name).as_array().map_or(&[], Vec::as_slice)
}

fn name_of(value: &Value) -> &str {
    member(value, "name").as_str().unwrap_or_default()
}

/// The properties with small first letters, without those that are empty.
fn properties(value: &Value) -> Map<String, Value> {
    let given = member(value, "properties")
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null() && *value != "");
    given
        .map(|(name, value)| (small(name), in_small(value)))
        .collect()
}

fn small(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// A filter with small first letters; application properties keep theirs.
fn in_small(value: &Value) -> Value {
    let Value::Object(members) = value else {
        return value.clone();
    };
    let renamed = members.iter().map(|(name, value)| match small(name) {
        name if name == "properties" => (name, value.clone()),
        name => (name, in_small(value)),
    });
    Value::Object(renamed.collect())
}

fn of_emulator(file: &Value, to: &mut Translation) {
    let config = member(file, "userConfig");
    let namespaces = list(config, "namespaces");
    if namespaces.is_empty() {
        to.leave_out("the file has no UserConfig.Namespaces".to_owned());
    }
    if namespaces.len() > 1 {
        to.note("all namespaces become one, since there is one for Service Bus".to_owned());
    }
    if !member(config, "logging").is_null() {
        to.leave_out("Logging is left out: see the setting log_level".to_owned());
    }
    to.leave_out_others(file, &["userConfig"], "the file");
    to.leave_out_others(config, &["namespaces", "logging"], "UserConfig");
    for namespace in namespaces {
        let title = format!("namespace {}", name_of(namespace));
        to.leave_out_others(namespace, &["name", "queues", "topics"], &title);
        for queue in list(namespace, "queues") {
            let title = format!("queue {}", name_of(queue));
            to.leave_out_others(queue, &["name", "properties"], &title);
            let properties = properties(queue);
            to.objects
                .push(json!({ "kind": "Queue", "name": name_of(queue), "properties": properties }));
        }
        for topic in list(namespace, "topics") {
            of_emulator_topic(topic, to);
        }
    }
}

fn of_emulator_topic(topic: &Value, to: &mut Translation) {
    let name = name_of(topic);
    let known = ["name", "properties", "subscriptions"];
    to.leave_out_others(topic, &known, &format!("topic {name}"));
    let given = properties(topic);
    to.objects
        .push(json!({ "kind": "ServiceBusTopic", "name": name, "properties": given }));
    for subscription in list(topic, "subscriptions") {
        let path = format!("{name}/{}", name_of(subscription));
        let known = ["name", "properties", "rules"];
        to.leave_out_others(subscription, &known, &format!("subscription {path}"));
        let given = properties(subscription);
        to.objects
            .push(json!({ "kind": "ServiceBusSubscription", "name": path, "properties": given }));
        for rule in list(subscription, "rules") {
            let title = format!("rule {path}/{}", name_of(rule));
            to.leave_out_others(rule, &["name", "properties"], &title);
            let mut given = properties(rule);
            if let Some(kind) = filter_type(&given) {
                given.insert("filterType".to_owned(), kind.into());
            }
            let rule = format!("{path}/{}", name_of(rule));
            to.objects
                .push(json!({ "kind": "Rule", "name": rule, "properties": given }));
        }
    }
}

/// The filter that is there says what it is, since Aspire writes `"FilterType": "Sql"` beside any. The emulator says Sql and
/// Correlation where Azure says SqlFilter and CorrelationFilter.
fn filter_type(rule: &Map<String, Value>) -> Option<String> {
    match (
        rule.contains_key("sqlFilter"),
        rule.contains_key("correlationFilter"),
    ) {
        (true, false) => Some("SqlFilter".to_owned()),
        (false, true) => Some("CorrelationFilter".to_owned()),
        (true, true) | (false, false) => {
            let kind = rule.get("filterType")?.as_str()?;
            Some(format!("{}Filter", kind.trim_end_matches("Filter")))
        }
    }
}
