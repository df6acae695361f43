//! The command line: commands that run something here, and commands that talk to a running server.

mod access_rules;
mod admin;
mod alerts;
mod assert;
mod audit;
mod backup;
mod bench;
mod body;
mod completion;
mod config;
mod configuration;
mod confirm;
mod credentials;
mod dead_letters;
mod definition;
mod delete;
mod demo;
mod dev;
mod doctor;
mod events;
mod explain;
mod filter;
mod healthcheck;
mod inspectors;
mod key;
mod messages;
mod namespaces;
mod output;
mod progress;
mod publish;
mod pull;
mod queues;
mod receive;
mod rejected;
mod rekey;
mod replay;
mod request;
mod restore;
mod salvage;
mod schema;
mod serve;
mod server;
mod service_bus;
mod storage;
mod subscriptions;
mod support_bundle;
mod table;
mod timeline;
mod token;
mod topic_arg;
mod topics;
mod try_filter;
mod upgrade_check;

#[cfg(any(test, fuzzing))]
pub(super) use configuration::import::objects_of_template;

use std::ffi::OsString;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use self::confirm::Misuse;
use self::request::{CommandGroup, Remote};
use crate::app::config::ConfigFaults;
use crate::store::StoreError;
use crate::wire::query::StorageParameters;

/// The exit code for a command that was understood but failed.
const FAILED: u8 = 1;

/// The exit code for a command line, a configuration or a master key that is wrong; clap uses the same.
const MISUSED: u8 = 2;

/// The exit code for an import that took nothing over, or with `--strict` not all.
const INCOMPLETE: u8 = 3;

/// Self-hosted event delivery, compatible with Azure Event Grid
#[derive(Parser)]
#[command(name = "everpost", version)]
pub struct CommandLine {
    #[command(subcommand)]
    command: Option<TopCommand>,
}

#[derive(Subcommand)]
enum TopCommand {
    /// Run the server: accept events, deliver them, show them. The default command
    Serve(serve::ServeArgs),
    /// See it work: an appliance, 100 events and two receivers that fail, in a few seconds
    Demo(demo::DemoArgs),
    /// Run a server for development and tests: no password, known keys, nothing kept
    ///
    /// It has a topic, `events`, and an inspector that receives what is published there. Tests can reset it, move its
    /// clock ahead, and wait until nothing is being delivered (docs/testing.md). Only this machine can reach it.
    Dev(dev::DevArgs),
    /// Publish events and receive them: rates, latencies and losses
    #[command(after_help = bench::EXAMPLES)]
    Bench(bench::BenchArgs),
    /// Receive events: a webhook that prints requests and answers as you choose
    #[command(after_help = receive::EXAMPLES)]
    Receive(receive::ReceiveArgs),
    /// Publish events to a topic
    #[command(after_help = publish::EXAMPLES)]
    Publish(Remote<publish::PublishArgs>),
    /// Manage namespaces
    Namespaces(Remote<CommandGroup<namespaces::NamespacesCommand>>),
    /// Manage topics
    Topics(Remote<CommandGroup<topics::TopicsCommand>>),
    /// Manage queues, which clients of Azure Service Bus use
    Queues(Remote<CommandGroup<queues::QueuesCommand>>),
    /// Show, send and receive messages of queues and Service Bus topics
    #[command(after_help = messages::EXAMPLES)]
    Messages(Remote<CommandGroup<messages::MessagesCommand>>),
    /// Manage Service Bus topics, their subscriptions and their rules
    ServiceBus(Remote<CommandGroup<service_bus::ServiceBusCommand>>),
    /// Manage access rules: keys of queues and Service Bus topics, and what each allows
    AccessRules(Remote<CommandGroup<access_rules::AccessRulesCommand>>),
    /// Manage event subscriptions
    Subscriptions(Remote<CommandGroup<subscriptions::SubscriptionsCommand>>),
    /// List and show events
    Events(Remote<CommandGroup<events::EventsCommand>>),
    /// Wait for an outcome, or fail: for tests and scripts
    Assert(Remote<CommandGroup<assert::AssertCommand>>),
    /// List, show and resubmit dead letters
    DeadLetters(Remote<CommandGroup<dead_letters::DeadLettersCommand>>),
    /// Resubmit many at once: start replay jobs, watch them, stop them
    Replay(Remote<CommandGroup<replay::ReplaySubcommand>>),
    /// Inspect deliveries: receivers inside the appliance that answer as you choose
    #[command(after_help = inspectors::EXAMPLES)]
    Inspectors(Remote<CommandGroup<inspectors::InspectorsCommand>>),
    /// Write everything that is defined to a file, without secrets
    #[command(after_help = configuration::EXAMPLES)]
    Export(Remote<configuration::ExportConfiguration>),
    /// Show what differs between files and the appliance; the exit code is 1 if something does
    Diff(Remote<configuration::Diff>),
    /// Create and change what files define
    #[command(after_help = configuration::EXAMPLES)]
    Apply(Remote<configuration::Apply>),
    /// Take over the configuration of another product
    Import(Remote<CommandGroup<configuration::import::ImportCommand>>),
    /// Get notified when deliveries fail: alert rules, alerts and channels
    #[command(after_help = alerts::EXAMPLES)]
    Alerts(Remote<CommandGroup<alerts::AlertsCommand>>),
    /// Show how large the database is, how long it keeps what, and what would be deleted now; deletes nothing
    Storage(Remote<StorageParameters>),
    /// Explain which event subscriptions receive an event, clause by clause
    Explain(Remote<explain::ExplainArgs>),
    /// List and show publish requests that were rejected
    Rejected(Remote<CommandGroup<rejected::RejectedCommand>>),
    /// Manage the users of the admin pages, and their sessions
    Admin(admin::AdminArgs),
    /// Print the management token, or manage the tokens of programs
    Token(token::TokenArgs),
    /// Show who did what, newest first
    Audit(Remote<audit::AuditArgs>),
    /// Replace the master key: encrypt every secret with a new one (with the server stopped)
    Rekey(rekey::RekeyArgs),
    /// Back up the appliance while it runs, or its data directory without a server
    ///
    /// The database as of one moment, the master key, the management token and the configuration file in the data
    /// directory become a directory with a manifest, which is verified before it gets its name.
    Backup(backup::BackupArgs),
    /// Restore a backup into a new data directory, which must be empty or not exist yet
    ///
    /// The sizes and SHA-256 digests of its manifest are verified first, and those of the restored files afterwards.
    Restore(restore::RestoreArgs),
    /// Copy what a damaged database still holds into a new data directory (with the server stopped)
    ///
    /// The old directory is only read. What could not be read is named by table and number, and the counters tell what
    /// there is in the new one. The keys, the token and the configuration file are copied too.
    Salvage(salvage::SalvageArgs),
    /// Check whether this version can take over a data directory
    ///
    /// Run it with the new program before you replace the old one; the server may keep running. It checks the settings and
    /// whether it can read the database, and shows what it would upgrade and whether there is enough free disk space. It
    /// changes nothing. The exit code is 0 if this version can start.
    UpgradeCheck(upgrade_check::UpgradeCheckArgs),
    /// Check or show the configuration
    Config(config::ConfigArgs),
    /// Check whether the server is ready; the exit code is 0 or 1
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Check that the server is ready, the database is sound and every delivery is accounted for
    ///
    /// For every event subscription: matched = pending + delivered + dead-lettered + dropped, and the counters
    /// of pending deliveries and dead letters agree with a recount. Every page of the database is read. The exit
    /// code is 0 or 1.
    Doctor(Remote<doctor::DoctorArgs>),
    /// Write a file that describes this appliance to somebody who is to help with it
    ///
    /// It has the version, the settings with their origins, sizes and counts, topics and event subscriptions,
    /// the schema of the database and the newest lines of the log; no secrets, no events, and of webhooks only
    /// host and port. It is JSON: read it through before you pass it on.
    SupportBundle(support_bundle::SupportBundleArgs),
    /// Print a completion script for a shell
    Completion(completion::CompletionArgs),
    /// Print the manual page, or write a page for every command
    Man(completion::ManArgs),
    /// Print the version
    Version,
}

impl CommandLine {
    /// Parses the arguments of the process, or ends it with an explanation.
    pub fn of_process() -> Self {
        Self::parse_from(with_default_command(std::env::args_os().collect()))
    }

    /// Runs the command. Errors go to standard error.
    pub fn run(self) -> ExitCode {
        let command = self.command;
        match command
            .unwrap_or(TopCommand::Serve(serve::ServeArgs::default()))
            .run()
        {
            Ok(code) => code,
            Err(error) => failure(&error),
        }
    }
}

impl TopCommand {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Serve(args) => return args.run(),
            Self::Demo(args) => return args.run(),
            Self::Dev(args) => args.run(),
            Self::Bench(args) => args.run(),
            Self::Receive(args) => wait_for(args.run()),
            Self::Publish(command) => wait_for(command.run()),
            Self::Namespaces(command) => wait_for(command.run()),
            Self::Topics(command) => wait_for(command.run()),
            Self::Queues(command) => wait_for(command.run()),
            Self::Messages(command) => wait_for(command.run()),
            Self::ServiceBus(command) => wait_for(command.run()),
            Self::AccessRules(command) => wait_for(command.run()),
            Self::Subscriptions(command) => wait_for(command.run()),
            Self::Events(command) => wait_for(command.run()),
            Self::Assert(command) => wait_for(command.run()),
            Self::DeadLetters(command) => wait_for(command.run()),
            Self::Replay(command) => wait_for(command.run()),
            Self::Inspectors(command) => wait_for(command.run()),
            Self::Export(command) => wait_for(command.run()),
            Self::Diff(command) => wait_for(command.run()),
            Self::Apply(command) => wait_for(command.run()),
            Self::Import(command) => wait_for(command.run()),
            Self::Alerts(command) => wait_for(command.run()),
            Self::Storage(command) => wait_for(command.run()),
            Self::Explain(command) => wait_for(command.run()),
            Self::Rejected(command) => wait_for(command.run()),
            Self::Admin(args) => wait_for(args.run()),
            Self::Token(args) => wait_for(args.run()),
            Self::Audit(command) => wait_for(command.run()),
            Self::Rekey(args) => args.run(),
            Self::Backup(args) => wait_for(args.run()),
            Self::Restore(args) => wait_for(args.run()),
            Self::Salvage(args) => args.run(),
            Self::UpgradeCheck(args) => args.run(),
            Self::Config(args) => args.run(),
            Self::Healthcheck(args) => wait_for(args.run()),
            Self::Doctor(command) => wait_for(command.run()),
            Self::SupportBundle(args) => wait_for(args.run()),
            Self::Completion(args) => args.run(),
            Self::Man(args) => args.run(),
            Self::Version => Ok(output::print(concat!(
                "everpost ",
                env!("CARGO_PKG_VERSION"),
                "\n"
            ))?),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

/// `everpost --listen …` means `everpost serve --listen …`.
fn with_default_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    const OWN: [&str; 4] = ["-h", "--help", "-V", "--version"];
    let first = arguments.get(1).and_then(|first| first.to_str());
    if first.is_some_and(|first| first.starts_with('-') && !OWN.contains(&first)) {
        arguments.insert(1, "serve".into());
    }
    arguments
}

/// One thread is plenty for a command that waits for one thing at a time.
fn wait_for(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.context("cannot start")?.block_on(command)
}

fn failure(error: &anyhow::Error) -> ExitCode {
    // Whoever reads may stop reading: `everpost events list | head` is no failure.
    let is_broken_pipe = |error: &io::Error| error.kind() == ErrorKind::BrokenPipe;
    if error
        .downcast_ref::<io::Error>()
        .is_some_and(is_broken_pipe)
    {
        return ExitCode::SUCCESS;
    }
    if error.is::<configuration::Different>() {
        return ExitCode::from(FAILED);
    }
    output::note(&format!("error: {error:#}"));
    if error.is::<configuration::import::Incomplete>() {
        return ExitCode::from(INCOMPLETE);
    }
    let is_wrong_key = matches!(error.downcast_ref(), Some(StoreError::MasterKey(_)));
    if error.is::<ConfigFaults>() || error.is::<Misuse>() || is_wrong_key {
        ExitCode::from(MISUSED)
    } else {
        ExitCode::from(FAILED)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn commands_are_understood() {
        let parsed = |line: &str| {
            let words = format!("everpost {line}");
            let words = words.split_whitespace().map(OsString::from).collect();
            CommandLine::try_parse_from(with_default_command(words)).map(drop)
        };
        assert!(parsed("").is_ok());
        for line in VALID.trim().lines() {
            assert!(parsed(line).is_ok(), "{line}: {:?}", parsed(line));
        }
        for line in INVALID.trim().lines() {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    /// Returns how many commands below this one delete, and checks that each of them can be told not to ask.
    fn deleting(command: &clap::Command) -> usize {
        let below: usize = command.get_subcommands().map(deleting).sum();
        if command.get_name() != "delete" {
            return below;
        }
        let told = command.get_arguments().any(|each| each.get_id() == "yes");
        assert!(told, "{command} takes no --yes");
        below + 1
    }

    #[test]
    fn whatever_deletes_asks_unless_it_is_told_not_to() {
        let count = deleting(&CommandLine::command());
        assert!(count > 10, "only {count} commands delete");
    }

    const VALID: &str = r#"
            --listen 127.0.0.1:0 --egress-allow 127.0.0.0/8
            serve --data-dir d --listen 127.0.0.1:0 --egress-allow 127.0.0.0/8 --time-scale 60
            version
            demo
            demo --stay --log-level debug
            bench --connections 64 --rate 200.5 --duration 30s --failing 5 --plot bench.svg --json
            bench --url http://h --fan-out 0 --request-ids
            receive --listen 127.0.0.1:0 --answer 503x3,200 --delay 2s --retry-after 30 --per-event --json
            receive --pull billing --topic shop/orders --count 5 --wait 20 --json
            receive --pull billing --namespace shop --topic orders --then release --release-delay 60
            publish --topic orders --type T --subject s --data {}
            publish --topic orders --file - --schema cloudevents --key k
            namespaces create shop --capacity 2 --tag a=b
            namespaces regenerate-key shop key2
            namespaces delete shop
            topics create orders --namespace shop --retention-days 7
            topics list --namespace shop
            subscriptions pause billing --namespace shop --topic orders
            publish --namespace shop --topic orders --type T
            topics list --url http://h --json
            topics --url http://h list
            topics create orders --schema cloudevents --tag a=b
            topics regenerate-key orders key2
            subscriptions create billing --topic orders --endpoint http://h --filter {}
            subscriptions update billing --topic orders --skip-validation=false
            subscriptions validate billing --topic orders
            events list --topic orders --type T --limit 5 --before 9
            subscriptions rotate-signing-secret billing --topic orders --grace PT1H
            subscriptions signing-secrets billing --topic orders
            receive --secret whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
            events show 12
            events try-now 12 --json
            dead-letters resubmit 5 6
            dead-letters resubmit --all --topic orders
            dead-letters resubmit --topic orders --reason Manual --yes --json
            dead-letters resubmit 5 --data x --to-url http://h
            replay start --delivered --topic orders --subscription s --from x --rate 2.5
            replay list --limit 5
            replay show 1 --follow
            replay pause 1
            storage --hours 24 --dead-letter-hours 720 --json
            explain 12
            explain --id a-1 --topic orders --json
            explain --file - --topic orders --subscription billing
            rejected list --topic orders --limit 5 --before 9
            rejected show 5
            export --format json orders.json
            diff orders.yaml --prune
            apply config --prune --yes --dry-run
            import servicebus-emulator Config.json --output jobs.yaml
            import eventgrid-simulator appsettings.json --dry-run
            topics try-filter orders --event-type T --last 100 --compare billing
            admin create ann
            admin create ann --role viewer
            admin reset-password ann --data-dir d
            admin set-role ann operator --json
            admin sessions --user ann
            inspectors create bin --answer 503x2,200 --delay 2s --retry-after 30 --per-event --header x-a=b
            inspectors requests bin --limit 5 --before 9
            inspectors request bin 5 --json
            inspectors clear bin
            alerts list --json
            alerts messages --limit 5 --before 9
            alerts rules create quiet --type NoEvents --topic orders --minutes 30 --disabled
            alerts rules disable quiet
            alerts channels create chat --format slack
            alerts channels create mail --email a@b.c --email d@e.f --from g@h.i --host h --port 25 --security none
            alerts channels test chat
            token
            token list --json
            token create ci --role operator --days 30
            token delete ci
            audit --actor ann --target orders --from 2026-11-21T00:00:00Z --limit 5
            token rotate --data-dir d
            rekey --data-dir d
            backup
            backup backups --without-master-key --url http://h --json
            restore backups/b --data-dir new --dry-run
            salvage new --data-dir d
            upgrade-check --data-dir d
            dev --listen 127.0.0.1:0 --time-scale 10 --service-bus-tier standard
            assert delivered --topic orders --type T --count 3 --within 5s
            config check --listen 1.1.1.1:1 --egress-allow 10.0.0.0/8
            config show --origin --metrics-public
            config sample
            config set retention.hours 336 --url http://h
            config unset egress.allow --json
            healthcheck --live
            doctor --json
            support-bundle --output -
            topics delete orders --yes
            subscriptions delete billing --topic shop/orders --pending dead-letter --yes
            completion fish
            man pages
    "#;

    const INVALID: &str = r#"
            --lisen 127.0.0.1:0
            bench --rate 0
            bench --failing 101
            receive --answer maybe
            receive --pull billing
            receive --pull billing --topic shop/orders --then forget
            receive --pull billing --topic shop/orders --release-delay 7
            receive --pull billing --topic shop/orders --answer 500
            receive --topic shop/orders
            publish --topic orders --file - --count 2
            publish --topic orders --type T --count 0
            topics create orders --retention-days 7 --tag a=b
            topics create orders --file x --schema cloudevents
            topics regenerate-key orders key3
            subscriptions create billing --endpoint http://h
            subscriptions create billing --topic orders --file x --max-attempts 3
            subscriptions create billing --topic orders --file x --event-type T
            subscriptions create billing --topic orders --file x --no-signing
            receive --secret hush
            dead-letters resubmit 5 --event x --data y
            dead-letters resubmit --subscription s
            replay start --delivered --topic orders
            replay start --to-topic t --to-url http://h
            dead-letters resubmit 5 --all
            explain
            explain --id a-1
            explain 12 --subscription billing
            explain 12 --file - --topic orders
            topics try-filter orders --file - --event-type T
            admin create ann --role root
            inspectors create bin --answer maybe
            inspectors create bin --header x-a
            alerts rules create quiet
            alerts channels create mail --email a@b.c
            alerts channels create mail --email a@b.c --from d@e.f --host h --format slack
            token create ci --days many
            restore
            completion cmd
            topics delete
    "#;
}
