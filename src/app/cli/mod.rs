//! The command line: commands that run something here, and commands that talk to a running server.

mod about_event;
mod admin;
mod audit;
mod body;
mod client;
mod config;
mod credentials;
mod dead_letter_files;
mod dead_letter_filter;
mod dead_letters;
mod definition;
mod demo;
mod doctor;
mod events;
mod explain;
mod filter;
mod healthcheck;
mod inspectors;
mod key;
mod moment;
mod namespaces;
mod output;
mod pending;
mod place;
mod publish;
mod pull;
mod receive;
mod rejected;
mod rekey;
mod replay;
mod resubmit;
mod serve;
mod server;
mod storage;
mod subscriptions;
mod support_bundle;
mod table;
mod timeline;
mod token;
mod topics;
mod try_filter;
mod watch;

use std::ffi::OsString;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::app::config::ConfigFaults;
use crate::store::StoreError;

/// The exit code for a command that was understood but failed.
const FAILED: u8 = 1;

/// The exit code for a command line, a configuration or a master key that is wrong; clap uses the same.
const MISUSED: u8 = 2;

/// Self-hosted event delivery, compatible with Azure Event Grid
#[derive(Parser)]
#[command(name = "everpost", version)]
pub struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Demo(demo::DemoArgs),
    Receive(receive::ReceiveArgs),
    Publish(publish::PublishArgs),
    Namespaces(namespaces::NamespacesArgs),
    Topics(topics::TopicsArgs),
    Subscriptions(Box<subscriptions::SubscriptionsArgs>),
    Events(events::EventsArgs),
    DeadLetters(Box<dead_letters::DeadLettersArgs>),
    Replay(replay::ReplayArgs),
    Inspectors(inspectors::InspectorsArgs),
    Storage(storage::StorageArgs),
    Explain(explain::ExplainArgs),
    Rejected(rejected::RejectedArgs),
    Admin(admin::AdminArgs),
    Token(token::TokenArgs),
    Audit(audit::AuditArgs),
    Rekey(rekey::RekeyArgs),
    Config(config::ConfigArgs),
    Healthcheck(healthcheck::HealthcheckArgs),
    Doctor(doctor::DoctorArgs),
    SupportBundle(support_bundle::SupportBundleArgs),
    /// Print the version
    Version,
}

impl CommandLine {
    /// Understands the arguments of the process, or ends it with an explanation.
    pub fn of_process() -> Self {
        Self::parse_from(with_default_command(std::env::args_os().collect()))
    }

    /// Does what the command line says and tells on standard error what went wrong.
    pub fn run(self) -> ExitCode {
        match self
            .command
            .unwrap_or(Command::Serve(serve::ServeArgs::default()))
            .run()
        {
            Ok(code) => code,
            Err(error) => failure(&error),
        }
    }
}

impl Command {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Serve(args) => return args.run(),
            Self::Demo(args) => return args.run(),
            Self::Receive(args) => wait_for(args.run()),
            Self::Publish(args) => wait_for(args.run()),
            Self::Namespaces(args) => wait_for(args.run()),
            Self::Topics(args) => wait_for(args.run()),
            Self::Subscriptions(args) => wait_for(args.run()),
            Self::Events(args) => wait_for(args.run()),
            Self::DeadLetters(args) => wait_for(args.run()),
            Self::Replay(args) => wait_for(args.run()),
            Self::Inspectors(args) => wait_for(args.run()),
            Self::Storage(args) => wait_for(args.run()),
            Self::Explain(args) => wait_for(args.run()),
            Self::Rejected(args) => wait_for(args.run()),
            Self::Admin(args) => wait_for(args.run()),
            Self::Token(args) => wait_for(args.run()),
            Self::Audit(args) => wait_for(args.run()),
            Self::Rekey(args) => args.run(),
            Self::Config(args) => args.run(),
            Self::Healthcheck(args) => wait_for(args.run()),
            Self::Doctor(args) => wait_for(args.run()),
            Self::SupportBundle(args) => wait_for(args.run()),
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
    output::tell(&format!("error: {error:#}"));
    let is_wrong_key = matches!(error.downcast_ref(), Some(StoreError::MasterKey(_)));
    match error.is::<ConfigFaults>() || is_wrong_key {
        true => ExitCode::from(MISUSED),
        false => ExitCode::from(FAILED),
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
        let check = |line: &str, is_valid: bool| {
            let words = line.split(' ').map(OsString::from).collect();
            let parsed = CommandLine::try_parse_from(with_default_command(words));
            assert_eq!(parsed.is_ok(), is_valid, "{line}: {:?}", parsed.err());
        };
        check("everpost", true);
        check(
            "everpost --listen 127.0.0.1:0 --egress-allow 127.0.0.0/8",
            true,
        );
        check("everpost --lisen 127.0.0.1:0", false);
        check(
            "everpost serve --data-dir d --listen 127.0.0.1:0 --egress-allow 127.0.0.0/8 --time-scale 60",
            true,
        );
        check("everpost version", true);
        check("everpost demo", true);
        check("everpost demo --stay --log-level debug", true);
        check(
            "everpost receive --listen 127.0.0.1:0 --answer 503x3,200 --delay 2s --retry-after 30 --per-event --json",
            true,
        );
        check("everpost receive --answer maybe", false);
        check(
            "everpost receive --pull billing --topic shop/orders --count 5 --wait 20 --json",
            true,
        );
        check(
            "everpost receive --pull billing --namespace shop --topic orders --then release --release-delay 60",
            true,
        );
        check("everpost receive --pull billing", false);
        check(
            "everpost receive --pull billing --topic shop/orders --then forget",
            false,
        );
        check(
            "everpost receive --pull billing --topic shop/orders --release-delay 7",
            false,
        );
        check(
            "everpost receive --pull billing --topic shop/orders --answer 500",
            false,
        );
        check("everpost receive --topic shop/orders", false);
        check(
            "everpost publish --topic orders --type T --subject s --data {}",
            true,
        );
        check(
            "everpost publish --topic orders --file - --schema cloudevents --key k",
            true,
        );
        check("everpost publish --topic orders --file - --count 2", false);
        check("everpost publish --topic orders --type T --count 0", false);
        check(
            "everpost namespaces create shop --capacity 2 --tag a=b",
            true,
        );
        check("everpost namespaces regenerate-key shop key2", true);
        check("everpost namespaces delete shop", true);
        check(
            "everpost topics create orders --namespace shop --retention-days 7",
            true,
        );
        check(
            "everpost topics create orders --namespace shop --schema eventgrid",
            false,
        );
        check(
            "everpost topics create orders --retention-days 7 --tag a=b",
            false,
        );
        check("everpost topics list --namespace shop", true);
        check(
            "everpost subscriptions pause billing --namespace shop --topic orders",
            true,
        );
        check(
            "everpost publish --namespace shop --topic orders --type T",
            true,
        );
        check("everpost topics list --url http://h --json", true);
        check("everpost topics --url http://h list", true);
        check(
            "everpost topics create orders --schema cloudevents --tag a=b",
            true,
        );
        check(
            "everpost topics create orders --file x --schema cloudevents",
            false,
        );
        check("everpost topics regenerate-key orders key2", true);
        check("everpost topics regenerate-key orders key3", false);
        check(
            "everpost subscriptions create billing --topic orders --endpoint http://h --filter {}",
            true,
        );
        check(
            "everpost subscriptions create billing --endpoint http://h",
            false,
        );
        check(
            "everpost subscriptions create billing --topic orders --file x --max-attempts 3",
            false,
        );
        check(
            "everpost subscriptions create billing --topic orders --file x --event-type T",
            false,
        );
        check(
            "everpost subscriptions update billing --topic orders --skip-validation=false",
            true,
        );
        check(
            "everpost subscriptions validate billing --topic orders",
            true,
        );
        check(
            "everpost events list --topic orders --type T --limit 5 --before 9",
            true,
        );
        check(
            "everpost subscriptions rotate-signing-secret billing --topic orders --grace PT1H",
            true,
        );
        check(
            "everpost subscriptions signing-secrets billing --topic orders",
            true,
        );
        check(
            "everpost subscriptions create billing --topic orders --file x --no-signing",
            false,
        );
        check(
            "everpost receive --secret whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            true,
        );
        check("everpost receive --secret hush", false);
        check("everpost events show 12", true);
        check("everpost events try-now 12 --json", true);
        check("everpost dead-letters resubmit 5 6", true);
        check("everpost dead-letters resubmit --all --topic orders", true);
        check(
            "everpost dead-letters resubmit --topic orders --reason Manual --yes --json",
            true,
        );
        check(
            "everpost dead-letters resubmit 5 --data x --to-url http://h",
            true,
        );
        check("everpost dead-letters resubmit 5 --topic orders", false);
        check("everpost dead-letters resubmit 5 --event x --data y", false);
        check("everpost dead-letters resubmit --all --event x", false);
        check("everpost dead-letters resubmit --subscription s", false);
        check(
            "everpost replay start --delivered --topic orders --subscription s --from x --rate 2.5",
            true,
        );
        check("everpost replay start --delivered --topic orders", false);
        check(
            "everpost replay start --to-topic t --to-url http://h",
            false,
        );
        check("everpost replay list --limit 5", true);
        check("everpost replay show 1 --follow", true);
        check("everpost replay pause 1", true);
        check("everpost dead-letters resubmit", false);
        check("everpost dead-letters resubmit 5 --all", false);
        check(
            "everpost storage --hours 24 --dead-letter-hours 720 --json",
            true,
        );
        check("everpost explain 12", true);
        check("everpost explain", false);
        check("everpost explain --id a-1", false);
        check("everpost explain --id a-1 --topic orders --json", true);
        check(
            "everpost explain --file - --topic orders --subscription billing",
            true,
        );
        check("everpost explain 12 --subscription billing", false);
        check("everpost explain 12 --file - --topic orders", false);
        check(
            "everpost rejected list --topic orders --limit 5 --before 9",
            true,
        );
        check("everpost rejected show 5", true);
        check(
            "everpost topics try-filter orders --event-type T --last 100 --compare billing",
            true,
        );
        check(
            "everpost topics try-filter orders --file - --event-type T",
            false,
        );
        check("everpost admin create ann", true);
        check(
            "everpost admin create ann --role viewer --password-file -",
            true,
        );
        check("everpost admin create ann --role root", false);
        check("everpost admin reset-password ann --data-dir d", true);
        check("everpost admin set-role ann operator --json", true);
        check("everpost admin sessions --user ann", true);
        check(
            "everpost inspectors create bin --answer 503x2,200 --delay 2s --retry-after 30 --per-event --header x-a=b",
            true,
        );
        check("everpost inspectors create bin --answer maybe", false);
        check("everpost inspectors create bin --header x-a", false);
        check(
            "everpost inspectors requests bin --limit 5 --before 9",
            true,
        );
        check("everpost inspectors request bin 5 --json", true);
        check("everpost inspectors clear bin", true);
        check("everpost token", true);
        check("everpost token list --json", true);
        check("everpost token create ci --role operator --days 30", true);
        check("everpost token create ci --days many", false);
        check("everpost token delete ci", true);
        check(
            "everpost audit --actor ann --path /topics --from 2026-11-21T00:00:00Z --limit 5",
            true,
        );
        check("everpost token rotate --data-dir d", true);
        check("everpost rekey --data-dir d", true);
        check(
            "everpost config check --listen 1.1.1.1:1 --egress-allow 10.0.0.0/8",
            true,
        );
        check("everpost config show --origin --metrics-public", true);
        check("everpost config sample", true);
        check("everpost healthcheck --live", true);
        check("everpost doctor --json", true);
        check("everpost support-bundle --output -", true);
    }
}
