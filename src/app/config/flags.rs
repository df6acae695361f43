//! The settings as flags, made from the registry.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::app::config::keys::SettingKey;
use crate::app::config::settings::KEYS;
use crate::model::setting::SettingKind;

/// The settings that the command line names.
#[derive(Clone, Default)]
pub struct ConfigFlags {
    /// `--config FILE`.
    pub config_file: Option<PathBuf>,
    /// Each setting that was given, with its values; of a secret, the path of its file.
    pub settings: Vec<(&'static SettingKey, Vec<String>)>,
}

impl ConfigFlags {
    /// Sets one setting, as its flag would.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.settings
            .push((SettingKey::named(name), vec![value.into()]));
    }
}

impl Args for ConfigFlags {
    fn augment_args(command: Command) -> Command {
        KEYS.iter()
            .fold(command.arg(config_file()), |command, key| {
                command.arg(flag(key))
            })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConfigFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let values = |key: &SettingKey| -> Option<Vec<String>> {
            let values = matches.get_many::<String>(&key.flag())?;
            Some(values.cloned().collect())
        };
        Ok(Self {
            config_file: matches.get_one::<PathBuf>("config").cloned(),
            settings: KEYS
                .iter()
                .filter_map(|key| Some((key, values(key)?)))
                .collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn config_file() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("Configuration file, in TOML [env: EVERPOST_CONFIG] [default: everpost.toml in the data directory, if it is there]")
}

fn flag(key: &'static SettingKey) -> Arg {
    let arg = Arg::new(key.flag())
        .long(key.flag())
        .value_name(value_name(key))
        .help(help(key))
        .help_heading("Settings");
    match key.kind {
        SettingKind::Text(_) | SettingKind::Number => arg,
        SettingKind::List(_) => arg.action(ArgAction::Append),
        SettingKind::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(PossibleValuesParser::new(["true", "false"])),
    }
}

fn value_name(key: &SettingKey) -> &'static str {
    if key.secret {
        return "FILE";
    }
    match key.kind {
        SettingKind::Text(word) | SettingKind::List(word) => word,
        SettingKind::Number => "N",
        SettingKind::Switch => "true|false",
    }
}

fn help(key: &SettingKey) -> String {
    let file = if key.secret {
        "File with this secret: "
    } else {
        ""
    };
    let variable = key.variable();
    let suffix = if key.secret { "_FILE" } else { "" };
    let default = match key.default {
        Some(default) if !default.is_empty() => format!(" [default: {default}]"),
        Some(_) | None => String::new(),
    };
    format!("{file}{} [env: {variable}{suffix}]{default}", key.doc)
}
