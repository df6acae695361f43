//! Where settings come from, what is rejected, and what is shown.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use tempfile::TempDir;

use super::*;
use crate::base::TimeScale;
use crate::model::limits;
use crate::model::probation::ProbationRules;
use crate::model::queue::ServiceBusTier;
use crate::model::retention::RetentionRules;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    flags: ConfigFlags,
}

/// A directory to write files into, and the settings that follow from a command line, an environment
/// (`NAME=value`) and those files. `@` in either stands for the directory.
struct Scene(TempDir);

impl Scene {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn file(self, name: &str, text: &str) -> Self {
        fs::write(self.0.path().join(name), text).expect("written");
        self
    }

    fn gather(&self, flags: &[&str], environment: &[&str]) -> RawConfig {
        let here = self.0.path().to_str().expect("a plain path");
        let words = flags.iter().map(|word| word.replace('@', here));
        let line = CommandLine::parse_from(std::iter::once("everpost".to_owned()).chain(words));
        let variables = environment.iter().map(|pair| {
            let (name, value) = pair.split_once('=').expect("NAME=value");
            (
                OsString::from(name),
                OsString::from(value.replace('@', here)),
            )
        });
        RawConfig::gather(line.flags, variables)
    }

    fn resolve(&self, flags: &[&str], environment: &[&str]) -> Config {
        Config::resolve(&self.gather(flags, environment)).expect("no fault")
    }

    /// The faults, one per line, with the directory as `@`.
    fn faults(&self, flags: &[&str], environment: &[&str]) -> Vec<String> {
        let faults = Config::resolve(&self.gather(flags, environment)).expect_err("a fault");
        let here = self.0.path().to_str().expect("a plain path");
        let lines = faults
            .0
            .iter()
            .map(|fault| fault.to_string().replace(here, "@"));
        lines.collect()
    }
}

#[test]
fn defaults_are_the_documented_ones() {
    let config = Config::resolve(&RawConfig::default()).expect("defaults are valid");
    assert_eq!(config.data_dir, Path::new("everpost-data"));
    assert_eq!(
        config.listen,
        ["127.0.0.1:8080".parse().expect("an address")]
    );
    assert_eq!(config.time_scale, TimeScale::REAL);
    assert!(config.egress_allow.is_empty() && !config.egress_require_https);
    assert!(config.admin_enabled && config.admin_hosts.is_empty() && !config.metrics_public);
    assert_eq!(config.webhook_origin, "eventgrid.azure.net");
    assert_eq!(config.shutdown_drain, Duration::from_secs(25));
    // Numbers that have their reasons in `limits` are the same here.
    assert_eq!(config.publish_bytes_max, limits::PUBLISH_BYTES_MAX);
    assert_eq!(config.publish_event_bytes_max, limits::EVENT_BYTES_MAX);
    assert_eq!(config.delivery_response_deadline, limits::RESPONSE_DEADLINE);
    assert_eq!(config.delivery_in_flight_max, limits::IN_FLIGHT_MAX);
    let per_subscription = config.delivery_in_flight_per_subscription;
    assert_eq!(per_subscription, limits::IN_FLIGHT_PER_SUBSCRIPTION);
    let probation = ProbationRules::default();
    assert_eq!(config.probation_failures, probation.failures);
    assert_eq!(config.probation_longest, probation.longest);
    assert_eq!(config.probation_mode, probation.mode);
    assert_eq!(config.service_bus_tier, ServiceBusTier::default());
    let retention = RetentionRules::default();
    assert_eq!(config.retention_delivered, retention.delivered);
    assert_eq!(config.retention_dead_letters, retention.dead_letters);
    assert_eq!(Some(config.retention_bytes_max), retention.bytes_max);
    assert_eq!(config.replay_resubmissions_max, limits::RESUBMISSIONS_MAX);
}

#[test]
fn several_addresses_are_listened_on() {
    let scene = Scene::new()
        .file("list.toml", "listen = ['1.1.1.1:443', '1.1.1.1:5671']\n")
        .file("none.toml", "listen = []\n");
    let expected = ["1.1.1.1:443", "1.1.1.1:5671"].map(|it| it.parse().expect("an address"));
    for (flags, environment) in [
        (&["--config", "@/list.toml"][..], ""),
        (&[], "EVERPOST_LISTEN=1.1.1.1:443,1.1.1.1:5671"),
        (&["--listen", "1.1.1.1:443", "--listen", "1.1.1.1:5671"], ""),
    ] {
        let environment: Vec<&str> = [environment]
            .into_iter()
            .filter(|it| !it.is_empty())
            .collect();
        let config = scene.resolve(flags, &environment);
        assert_eq!(config.listen, expected, "{flags:?} {environment:?}");
    }
    let faults = scene.faults(&["--config", "@/none.toml"], &[]);
    let expected =
        "listen (EVERPOST_LISTEN) is empty; name an address with a port, like 127.0.0.1:8080";
    assert_eq!(faults, [expected]);
}

#[test]
fn what_a_variable_may_mean_is_told() {
    let faults = |variable: &str| Scene::new().faults(&[], &[&format!("{variable}=1")]);
    for (variable, expected) in [
        ("EVERPOST_TOKEN", "EVERPOST_MANAGEMENT_TOKEN"),
        ("EVERPOST_API_TOKEN", "EVERPOST_MANAGEMENT_TOKEN"),
        ("EVERPOST_PASSWORD", "EVERPOST_ADMIN_PASSWORD"),
        ("EVERPOST_CERTIFICATE", "EVERPOST_TLS_CERT"),
        ("EVERPOST_ADDRESS", "EVERPOST_LISTEN"),
        ("EVERPOST_BIND_ADDRESS", "EVERPOST_LISTEN"),
        ("EVERPOST_BASE_URL", "EVERPOST_PUBLIC_URL"),
        ("EVERPOST_LOG", "EVERPOST_LOG_FORMAT or EVERPOST_LOG_LEVEL"),
        ("EVERPOST_LOGLEVEL", "EVERPOST_LOG_LEVEL"),
        ("EVERPOST_LOG_LEVL", "EVERPOST_LOG_LEVEL"),
    ] {
        let expected = format!("{variable} belongs to no setting; did you mean {expected}?");
        assert_eq!(faults(variable), [expected]);
    }
    let unknown = "EVERPOST_ZEBRA belongs to no setting; `everpost config sample` lists them all";
    assert_eq!(faults("EVERPOST_ZEBRA"), [unknown]);
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let scene = Scene::new().file("c.toml", "listen = '1.1.1.1:3'\n[log]\nlevel = 'warn'\n");
    let check = |flags: &[&str], environment: &[&str], listen: &str, origin: &str| {
        let raw = scene.gather(flags, environment);
        let config = Config::resolve(&raw).expect("no fault");
        let (_, from) = raw.lookup(SettingKey::named("listen"));
        let here = scene.0.path().to_str().expect("a plain path");
        let listening: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
        assert_eq!(listening.join(","), listen, "{flags:?} {environment:?}");
        assert_eq!(from.to_string().replace(here, "@"), origin);
    };
    let flag = ["--listen", "1.1.1.1:1"];
    let variable = "EVERPOST_LISTEN=1.1.1.1:2";
    let file = "EVERPOST_CONFIG=@/c.toml";
    check(&[], &[], "127.0.0.1:8080", "default");
    check(&[], &[file], "1.1.1.1:3", "@/c.toml");
    check(&["--config", "@/c.toml"], &[], "1.1.1.1:3", "@/c.toml");
    check(&[], &[file, variable], "1.1.1.1:2", "EVERPOST_LISTEN");
    check(&flag, &[file, variable], "1.1.1.1:1", "--listen");
    check(&flag, &[], "1.1.1.1:1", "--listen");
    // An empty variable is none, and the variables of others are passed over.
    check(
        &[],
        &[file, "EVERPOST_LISTEN=", "PATH=/bin"],
        "1.1.1.1:3",
        "@/c.toml",
    );
    check(
        &[],
        &[
            "EVERPOST_PORT=tcp://10.0.0.1:80",
            "EVERPOST_SERVICE_HOST=10.0.0.1",
        ],
        "127.0.0.1:8080",
        "default",
    );
    check(
        &[],
        &["EVERPOST_URL=http://somewhere"],
        "127.0.0.1:8080",
        "default",
    );
}

#[test]
fn the_data_directory_may_hold_the_file() {
    let scene = Scene::new().file("everpost.toml", "log.format = 'json'");
    let format =
        |flags: &[&str], environment: &[&str]| scene.resolve(flags, environment).log_format;
    assert_eq!(format(&["--data-dir", "@"], &[]), LogFormat::Json);
    assert_eq!(format(&[], &["EVERPOST_DATA_DIR=@"]), LogFormat::Json);
    assert_eq!(format(&["--data-dir", "@/elsewhere"], &[]), LogFormat::Text);

    let scene = Scene::new().file("everpost.toml", "data_dir = '/srv'");
    let faults = scene.faults(&["--data-dir", "@"], &[]);
    assert!(
        faults[0].starts_with("@/everpost.toml sets data_dir"),
        "{faults:?}"
    );
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let faults = Scene::new().faults(&["--config", "@/c.toml"], &[]);
    assert!(
        faults[0].starts_with("@/c.toml cannot be read: "),
        "{faults:?}"
    );
    let big = "#".repeat(1_048_577);
    let faults = Scene::new()
        .file("c.toml", &big)
        .faults(&[], &["EVERPOST_CONFIG=@/c.toml"]);
    assert_eq!(faults, ["@/c.toml is longer than 1048576 bytes"]);
}

#[test]
fn every_form_of_a_value_is_understood() {
    let text = "time_scale = 60\negress.allow = ['10.0.0.0/8', '::1']\negress.require_https = true\n\
                public_url = 'https://e.example'\nshutdown.drain_s = 0\n";
    let scene = Scene::new().file("c.toml", text);
    let config = scene.resolve(&["--config", "@/c.toml"], &[]);
    assert_eq!(config.time_scale.factor(), 60);
    assert_eq!(
        format!("{:?}", config.egress_allow),
        "[10.0.0.0/8, ::1/128]"
    );
    assert!(config.egress_require_https);
    assert_eq!(
        config.public_url.expect("set").as_str(),
        "https://e.example/"
    );
    assert_eq!(config.shutdown_drain, Duration::ZERO);

    let config = scene.resolve(
        &[],
        &[
            "EVERPOST_EGRESS_ALLOW=127.0.0.0/8, 10.1.0.0/16",
            "EVERPOST_METRICS_PUBLIC=true",
        ],
    );
    assert_eq!(
        format!("{:?}", config.egress_allow),
        "[127.0.0.0/8, 10.1.0.0/16]"
    );
    assert!(config.metrics_public);

    let flags = [
        "--egress-allow",
        "10.1.0.0/16",
        "--egress-allow",
        "10.2.0.0/16,10.3.0.0/16",
        "--metrics-public",
        "--admin-enabled=false",
    ];
    let config = scene.resolve(&flags, &[]);
    assert_eq!(
        format!("{:?}", config.egress_allow),
        "[10.1.0.0/16, 10.2.0.0/16, 10.3.0.0/16]"
    );
    assert!(config.metrics_public && !config.admin_enabled);
}

const TOKEN: &str = "0123456789abcdef";

#[test]
fn secrets_come_from_files_too() {
    let scene = Scene::new()
        .file("token", &format!("{TOKEN}\n"))
        .file("password", "correct horse\r\n")
        .file("empty", "\n");
    let check = |flags: &[&str], environment: &[&str]| {
        let token = scene.resolve(flags, environment).management_token;
        assert_eq!(
            token.expect("a token").reveal(),
            TOKEN,
            "{flags:?} {environment:?}"
        );
    };
    check(&[], &[&format!("EVERPOST_MANAGEMENT_TOKEN={TOKEN}")]);
    check(&[], &["EVERPOST_MANAGEMENT_TOKEN_FILE=@/token"]);
    check(&["--management-token-file", "@/token"], &[]);

    let path = scene.0.path().join("token");
    let scene = scene.file("c.toml", &format!("management.token_file = {path:?}"));
    let token = scene
        .resolve(&["--config", "@/c.toml"], &[])
        .management_token;
    assert_eq!(token.expect("a token").reveal(), TOKEN);

    let account = [
        "EVERPOST_ADMIN_USER=ada",
        "EVERPOST_ADMIN_PASSWORD_FILE=@/password",
    ];
    let config = scene.resolve(&[], &account);
    assert_eq!(config.admin_user.as_deref(), Some("ada"));
    let password = config.admin_password.expect("a password");
    assert_eq!(password.reveal(), "correct horse");

    let faults = scene.faults(&[], &["EVERPOST_MANAGEMENT_TOKEN_FILE=@/empty"]);
    assert_eq!(
        faults,
        [
            "management.token (set by EVERPOST_MANAGEMENT_TOKEN_FILE = @/empty) names @/empty, which is empty"
        ]
    );
    let faults = scene.faults(&[], &["EVERPOST_MANAGEMENT_TOKEN_FILE=@/missing"]);
    assert!(
        faults[0].contains("names @/missing, which cannot be read"),
        "{faults:?}"
    );
    let twice = [
        &format!("EVERPOST_MANAGEMENT_TOKEN={TOKEN}"),
        "EVERPOST_MANAGEMENT_TOKEN_FILE=@/token",
    ];
    let faults = scene.faults(&[], &twice);
    assert!(faults[0].contains("leave one of them out"), "{faults:?}");
}

#[test]
fn all_faults_come_at_once_with_key_and_variable() {
    let scene = Scene::new().file(
        "c.toml",
        "listen = '8080'\ntime_scale = 0\negres.allow = []\nadmin.user = ['a', 'b']\n",
    );
    let environment = [
        "EVERPOST_LOG_LEVEL=inof",
        "EVERPOST_ADMIN_PASSWORD=hunter2",
        "EVERPOST_LISTN=x",
        "EVERPOST_EGRESS_ALLOW=lan,10.0.0.0/33",
    ];
    let mut faults = scene.faults(&["--config", "@/c.toml"], &environment);
    faults.sort();
    assert_eq!(
        faults,
        [
            "EVERPOST_LISTN belongs to no setting; did you mean EVERPOST_LISTEN?",
            "admin.password (set by EVERPOST_ADMIN_PASSWORD) has 7 characters; a password has 8 to 1024",
            "admin.user (EVERPOST_ADMIN_USER, set by @/c.toml) takes one value, not a list",
            "egres.allow is no setting, but @/c.toml sets it; did you mean \"egress.allow\" (EVERPOST_EGRESS_ALLOW)?",
            "egress.allow (set by EVERPOST_EGRESS_ALLOW) has \"10.0.0.0/33\", which is not a network; write it like 10.0.0.0/8 or fd00::/8",
            "egress.allow (set by EVERPOST_EGRESS_ALLOW) has \"lan\", which is not a network; write it like 10.0.0.0/8 or fd00::/8",
            "listen (EVERPOST_LISTEN, set by @/c.toml) is \"8080\", which is not an address with a port; write it like 127.0.0.1:8080",
            "log.level (set by EVERPOST_LOG_LEVEL) is \"inof\"; write one of off, error, warn, info, debug, trace, or levels of modules, such as \"info,everpost::broker=debug\"",
            "time_scale (EVERPOST_TIME_SCALE, set by @/c.toml) is \"0\"; write a whole number from 1 to 1000000",
        ]
    );
}

#[test]
fn values_are_checked() {
    let reject = |variable: &str, expected: &str| {
        let faults = Scene::new().faults(&[], &[&format!("EVERPOST_{variable}")]);
        assert!(
            faults.len() == 1 && faults[0].contains(expected),
            "{variable}: {faults:?}"
        );
    };
    reject("PUBLIC_URL=events.example.com", "not an absolute URL");
    reject(
        "PUBLIC_URL=ftp://events.example.com",
        "not an http or https URL",
    );
    reject(
        "PUBLIC_URL=https://events.example.com/grid",
        "goes on after",
    );
    reject("LOG_FORMAT=xml", "\"text\" or \"json\"");
    reject("LOG_LEVEL=info,=debug", "write one of");
    reject("METRICS_PUBLIC=yes", "write true or false");
    reject("AZURE_SUBSCRIPTION_ID=1234", "not a UUID");
    reject("AZURE_RESOURCE_GROUP=a/b", "up to 90 letters");
    reject("AZURE_RESOURCE_GROUP=group.", "no period last");
    reject("SERVICE_BUS_TIER=Basic", "\"premium\" or \"standard\"");
    reject("WEBHOOK_ORIGIN=https://x", "not a host name");
    reject("DELIVERY_IN_FLIGHT_MAX=-1", "from 0 to 10000");
    reject("DELIVERY_RESPONSE_DEADLINE_S=30s", "from 1 to 600");
    reject("PROBATION_MODE=Azure", "\"hold\" or \"azure\"");
    reject("PROBATION_LONGEST_S=14401", "from 10 to 14400");
    reject("PUBLISH_BYTES_MAX=1023", "from 1024");
    reject("SHUTDOWN_DRAIN_S=3601", "from 0 to 3600");
    reject("MANAGEMENT_TOKEN=short", "at least 16 characters");
    reject("MANAGEMENT_TOKEN=with spaces in the middle", "no spaces");
    reject("ADMIN_HOSTS=https://events.lan", "write it like events.lan");
    reject(
        "ADMIN_HOSTS=grid.lan,events.lan:8080",
        "\"events.lan:8080\"",
    );
    reject("ADMIN_HOSTS=*", "without scheme, port or *");
    reject(
        "ADMIN_USER=ada",
        "admin.password (EVERPOST_ADMIN_PASSWORD) is missing",
    );
    reject(
        "ADMIN_PASSWORD=long enough",
        "admin.user (EVERPOST_ADMIN_USER) is missing",
    );
}

#[test]
fn a_public_url_holds_no_credentials() {
    let error = values::public_url("https://a:b@events.example.com").expect_err("rejected");
    assert!(error.contains("user name"), "{error}");
}

#[test]
fn misspelt_and_misplaced_names_are_explained() {
    let check = |text: &str, expected: &str| {
        let scene = Scene::new().file("c.toml", text);
        let faults = scene.faults(&["--config", "@/c.toml"], &[]);
        assert!(
            faults.len() == 1 && faults[0].contains(expected),
            "{text}: {faults:?}"
        );
    };
    check("[delivery]\nin_flight = 5", "\"delivery.in_flight_max\"");
    check("[delivery]\nin_flight_mx = 5", "\"delivery.in_flight_max\"");
    check("log = 'json'", "a group of settings: log.format, log.level");
    check("dataDir = 'x'", "\"data_dir\"");
    check("[listen]\nport = 1", "listen.port is no setting");
    check("qwertz = 1", "lists them all");
    check("log.format_file = 'x'", "log.format_file is no setting");
    check("egress.allow = [['10.0.0.0/8']]", "write plain values");
    check("listen = \n", "is not valid TOML in line 1");
    check(
        "time_scale = 1\nmanagement.token = 'top-secret",
        "is not valid TOML in line 2",
    );
}

#[test]
fn no_fault_shows_a_secret() {
    let scene = Scene::new().file(
        "c.toml",
        "management.token = 'sesame'\nadmin.password = 'sesame'\nx = 'sesame\n",
    );
    let in_file = scene.faults(&["--config", "@/c.toml"], &[]);
    let in_environment = scene.faults(
        &[],
        &[
            "EVERPOST_MANAGEMENT_TOKEN=sesame",
            "EVERPOST_ADMIN_PASSWORD=sesame",
        ],
    );
    assert_eq!((in_file.len(), in_environment.len()), (1, 3));
    assert!(!format!("{in_file:?} {in_environment:?}").contains("sesame"));
    let config = scene.resolve(&[], &["EVERPOST_MANAGEMENT_TOKEN=sesame-open-yourself"]);
    assert!(!format!("{config:?}").contains("sesame"));
}

#[test]
fn the_configuration_is_shown_with_origins_and_without_secrets() {
    let scene = Scene::new().file("c.toml", "egress.allow = ['10.0.0.0/8', '::1/128']");
    let raw = scene.gather(
        &["--config", "@/c.toml", "--time-scale", "60"],
        &["EVERPOST_MANAGEMENT_TOKEN=sesame-open-yourself"],
    );
    let shown = show(&listing::in_force(&raw), true);
    let line = |name: &str| {
        shown
            .lines()
            .find(|line| line.contains(name))
            .expect(name)
            .to_owned()
    };
    let words = |name: &str| line(name).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words("listen"), "listen = [\"127.0.0.1:8080\"] # default");
    assert_eq!(words("time_scale"), "time_scale = 60 # --time-scale");
    assert_eq!(
        words("management.token"),
        "management.token = \"***\" # EVERPOST_MANAGEMENT_TOKEN"
    );
    assert_eq!(words("public_url"), "# public_url is not set # default");
    assert!(words("egress.allow").starts_with("egress.allow = [\"10.0.0.0/8\", \"::1/128\"] # /"));
    assert!(!shown.contains("sesame"));
    // What is shown is a file again.
    let without_secrets = show(&scene.resolve(&["--time-scale", "60"], &[]).shown, false);
    let scene = scene.file("d.toml", &without_secrets);
    assert_eq!(
        scene
            .resolve(&["--config", "@/d.toml"], &[])
            .time_scale
            .factor(),
        60
    );
}

#[test]
fn the_sample_uncommented_is_the_default() {
    let sample = sample();
    let is_setting = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    let lines = sample.lines().filter(is_setting).map(|line| &line[1..]);
    let lines: Vec<&str> = lines.filter(|line| !line.contains("\"\"")).collect();
    let plain = KEYS.iter().filter(|key| !key.secret).count();
    assert_eq!(
        lines.len(),
        plain,
        "one line for each setting that is no secret"
    );
    let without_user: Vec<&str> = lines
        .into_iter()
        .filter(|line| !line.contains("admin.user"))
        .collect();
    let scene = Scene::new().file("c.toml", &without_user.join("\n"));
    let shown = show(
        &listing::in_force(&scene.gather(&["--config", "@/c.toml"], &[])),
        false,
    );
    let defaults = show(&listing::in_force(&RawConfig::default()), false);
    let unset = [
        (
            "public_url = \"https://events.example.com\"",
            "# public_url is not set",
        ),
        (
            "tls.cert = \"/etc/everpost/tls.pem\"",
            "# tls.cert is not set",
        ),
        (
            "tls.key = \"/etc/everpost/tls.key\"",
            "# tls.key is not set",
        ),
        (
            "retention.dead_letter_hours = 720",
            "# retention.dead_letter_hours is not set",
        ),
        ("backup.dir = \"/srv/backups\"", "# backup.dir is not set"),
        (
            "backup.s3_endpoint = \"https://s3.example.com\"",
            "# backup.s3_endpoint is not set",
        ),
        (
            "backup.s3_access_key_id = \"AKIAIOSFODNN7EXAMPLE\"",
            "# backup.s3_access_key_id is not set",
        ),
        (
            "sign_in.proxy_user_header = \"X-Forwarded-User\"",
            "# sign_in.proxy_user_header is not set",
        ),
        (
            "oidc.issuer = \"https://login.example.com/realms/main\"",
            "# oidc.issuer is not set",
        ),
        (
            "oidc.client_id = \"everpost\"",
            "# oidc.client_id is not set",
        ),
        (
            "provisioning.dir = \"/etc/everpost/provisioning\"",
            "# provisioning.dir is not set",
        ),
        (
            "tracing.otlp_endpoint = \"http://127.0.0.1:4318\"",
            "# tracing.otlp_endpoint is not set",
        ),
        (
            "dead_letter.export_dir = \"/srv/dead-letters\"",
            "# dead_letter.export_dir is not set",
        ),
    ];
    let shown = unset.iter().fold(shown, |shown, (example, default)| {
        shown.replace(example, default)
    });
    assert_eq!(shown, defaults);
    assert!(
        sample.lines().all(|line| line.len() <= 90),
        "no line is too long to read"
    );
}

#[test]
fn names_are_unambiguous() {
    let mut variables: Vec<String> = KEYS.iter().map(SettingKey::variable).collect();
    variables.extend(
        KEYS.iter()
            .filter(|key| key.secret)
            .map(|key| key.variable() + "_FILE"),
    );
    let count = variables.len();
    variables.sort();
    variables.dedup();
    assert_eq!(variables.len(), count);
}

#[test]
fn a_configuration_that_lets_nobody_sign_in_is_rejected() {
    let check = |environment: &[&str], expected: &[&str]| {
        let faults = Scene::new().faults(&[], environment);
        assert_eq!(faults.len(), expected.len(), "{faults:?}");
        for (fault, expected) in faults.iter().zip(expected) {
            assert!(fault.contains(expected), "{fault} lacks {expected}");
        }
    };
    let issuer = "EVERPOST_OIDC_ISSUER=https://id.example";
    let client = "EVERPOST_OIDC_CLIENT_ID=everpost";
    let viewers = "EVERPOST_SIGN_IN_VIEWER_GROUPS=*";
    check(&[issuer, viewers], &["oidc.client_id"]);
    check(&[issuer, client], &["sign_in.admin_groups"]);
    check(
        &["EVERPOST_SIGN_IN_PASSWORD_FORM=false"],
        &["sign_in.password_form is off"],
    );
    check(
        &["EVERPOST_SIGN_IN_PROXY_USER_HEADER=X-User", viewers],
        &["http.trusted_proxies"],
    );
    for issuer in ["http://id.example", "https://id.example?x=1", "id.example"] {
        let issuer = format!("EVERPOST_OIDC_ISSUER={issuer}");
        check(&[&issuer, client, viewers], &["write an https URL"]);
    }
    let here = "EVERPOST_OIDC_ISSUER=http://127.0.0.1:9000/";
    let config = Scene::new().resolve(&[], &[here, client, viewers]);
    assert_eq!(
        config.oidc_issuer.as_deref(),
        Some("http://127.0.0.1:9000/")
    );
}

#[test]
fn what_is_saved_wins_over_the_file_and_over_nothing_else() {
    let scene = Scene::new().file(
        "everpost.toml",
        "retention.hours = 1\nretention.max_mb = 1\ndelivery.in_flight_max = 1\n",
    );
    let flags = ["--data-dir", "@", "--retention-max-mb", "2"];
    let config = scene.resolve(&flags, &["EVERPOST_DELIVERY_IN_FLIGHT_MAX=3"]);
    let saved = [
        ("retention.hours", "48"),
        ("retention.max_mb", "9"),
        ("delivery.in_flight_max", "9"),
        ("egress.allow", "10.0.0.0/8,::1/128"),
        ("public_url", "not a URL"),
        ("listen", "127.0.0.1:1"),
        ("gone", "1"),
        ("backup.dir", "/etc"),
    ];
    let saved = saved.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (mut changed, faults) = config.with_saved(&saved.into());
    assert_eq!(changed.retention_delivered, Duration::from_secs(48 * 3_600));
    assert_eq!(changed.retention_bytes_max, 2 << 20);
    assert_eq!(changed.delivery_in_flight_max, 3);
    assert_eq!(changed.egress_allow.len(), 2);
    assert_eq!(
        (&changed.public_url, &changed.listen),
        (&None, &config.listen)
    );
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 4, "{faults:?}");
    assert!(faults.iter().any(|fault| fault.starts_with("public_url ")));
    assert_eq!(changed.backup_dir, None);
    let shown = show(&changed.shown, true);
    for line in [
        "retention.hours = 48",
        "egress.allow = [\"10.0.0.0/8\", \"::1/128\"]",
    ] {
        let found = shown.lines().find(|each| each.starts_with(line));
        assert!(
            found.is_some_and(|line| line.ends_with("# saved")),
            "{shown}"
        );
    }
    (changed, _) = changed.with_saved(&SavedSettings::new());
    assert!(
        changed.egress_allow.len() == 2,
        "it is based on what it was made from"
    );
}

#[test]
fn each_setting_that_changes_at_once_is_checked_as_at_a_start_and_backups_stay_where_they_may_be() {
    let places = [
        "EVERPOST_BACKUP_DIR=/srv/backups",
        "EVERPOST_BACKUP_ALLOW=/mnt/a,s3://backups",
    ];
    let config = Scene::new().resolve(&[], &places);
    for (name, text, expected) in [
        ("retention.hours", "336", None),
        ("retention.hours", "soon", Some("from 0 to 876000")),
        ("egress.allow", "", None),
        ("egress.allow", "10.0.0.0/8,lan", Some("not a network")),
        ("log.level", "loud", Some("levels of modules")),
        ("probation.mode", "off", Some("\"hold\" or \"azure\"")),
        ("backup.dir", "/srv/backups/daily", None),
        ("backup.dir", "s3://backups/everpost", None),
        ("backup.dir", "/etc", Some("backup.allow")),
        ("backup.dir", "/srv/backups/../../etc", Some("backup.allow")),
        ("backup.dir", "s3://others/everpost", Some("backup.allow")),
    ] {
        let problem = config.problem_of_saved(name, text);
        assert_eq!(problem.is_some(), expected.is_some(), "{name} {problem:?}");
        let expected = expected.unwrap_or_default();
        assert!(problem.unwrap_or_default().contains(expected), "{name}");
    }
    assert!(KEYS.iter().all(|key| !(key.is_live && key.secret)));
}

#[cfg(unix)]
#[test]
fn a_link_within_the_backups_leads_nowhere_else() {
    let scene = Scene::new();
    let here = scene.0.path().canonicalize().expect("a directory");
    for dir in ["backups", "backups/daily", "elsewhere"] {
        fs::create_dir(here.join(dir)).expect("made");
    }
    let link = |to: &str, from: &str| {
        std::os::unix::fs::symlink(here.join(to), here.join(from)).expect("linked");
    };
    link("elsewhere", "backups/out");
    link("backups", "linked");
    for allowed in ["backups", "linked"] {
        let allowed = format!("EVERPOST_BACKUP_DIR={}", here.join(allowed).display());
        let config = scene.resolve(&[], &[&allowed]);
        let is_taken = |dir: &str| {
            let dir = here.join(dir).display().to_string();
            config.problem_of_saved("backup.dir", &dir).is_none()
        };
        assert!(is_taken("backups/daily"));
        assert!(!is_taken("elsewhere") && !is_taken("backups/out"));
        assert!(
            !is_taken("backups/out/new"),
            "what is not there yet is below no link"
        );
    }
}

#[test]
fn the_collector_of_open_telemetry_is_taken_where_ours_is_not_set() {
    let scene = Scene::new();
    let theirs = "OTEL_EXPORTER_OTLP_ENDPOINT=http://theirs:4318";
    let ours = "EVERPOST_TRACING_OTLP_ENDPOINT=http://ours:4318";
    let flag = ["--tracing-otlp-endpoint", "http://flag:4318"];
    let key = SettingKey::named("tracing.otlp_endpoint");
    for (flags, environment, expected, from) in [
        (&[][..], &[][..], "", ""),
        (
            &[],
            &[theirs],
            "http://theirs:4318",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ),
        (
            &[],
            &[theirs, ours],
            "http://ours:4318",
            "EVERPOST_TRACING_OTLP_ENDPOINT",
        ),
        (
            &flag,
            &[theirs],
            "http://flag:4318",
            "--tracing-otlp-endpoint",
        ),
    ] {
        let (values, origin) = scene.gather(flags, environment).lookup(key);
        assert_eq!(
            (values.concat(), origin.place.as_str()),
            (expected.to_owned(), from)
        );
    }
    let faults = scene.faults(&[], &["OTEL_EXPORTER_OTLP_ENDPOINT=nowhere"]);
    assert!(
        faults[0].contains("OTEL_EXPORTER_OTLP_ENDPOINT"),
        "{faults:?}"
    );
}
