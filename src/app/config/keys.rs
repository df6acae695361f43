//! The registry of settings. The file, the environment, the flags, `config show`, the sample file and
//! the suggestions for misspelt names all read it: a new setting is a row here and a field of
//! [`super::Config`].

/// One setting.
#[derive(Debug)]
pub struct Key {
    /// Its dotted name in the file.
    pub name: &'static str,
    pub kind: Kind,
    /// In the form of the environment; `None` for settings that may stay unset.
    pub default: Option<&'static str>,
    /// What the sample file shows.
    pub example: &'static str,
    /// Hidden wherever settings are shown. It can also come from a file, named by `…_FILE`, and only
    /// so from the command line, whose arguments every process of the machine can read.
    pub secret: bool,
    /// Meaning, unit and bounds, in a few sentences.
    pub doc: &'static str,
}

/// How a setting is written in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With a word for it in help texts.
    Text(&'static str),
    Number,
    /// `true` or `false`.
    Switch,
    /// Texts, with a word for one of them; separated by commas in the environment, repeated on the
    /// command line.
    List(&'static str),
}

/// What every variable of the environment begins with.
pub(super) const VARIABLE_PREFIX: &str = "EVERPOST_";

/// The variable that names the configuration file.
pub(super) const CONFIG_VARIABLE: &str = "EVERPOST_CONFIG";

/// Variables that are no settings: they are for the commands that talk to a server.
pub(super) const CLIENT_VARIABLES: [&str; 3] =
    ["EVERPOST_URL", "EVERPOST_KEY", "EVERPOST_KEY_FILE"];

/// All settings, in the order in which they are shown.
#[rustfmt::skip] // a table
pub static KEYS: &[Key] = &[
    setting("data_dir", Kind::Text("DIR"), "everpost-data",
        "Directory of the database and of everything else that must survive. Made at the first \
         start."),
    setting("listen", Kind::Text("ADDRESS:PORT"), "127.0.0.1:8080",
        "Address and port to listen on. Port 0 takes a free one, 0.0.0.0 listens on every interface."),
    optional("public_url", Kind::Text("URL"), "https://events.example.com",
        "URL by which publishers, receivers and browsers reach the appliance, if it is another \
         than the one that it listens on."),
    setting("time_scale", Kind::Number, "1",
        "How many times faster than real the waits between attempts pass. Above 1 is for tests \
         and demonstrations."),
    setting("log.format", Kind::Text("text|json"), "text",
        "Form of the log on standard error: \"text\" for people, \"json\" for programs."),
    setting("log.level", Kind::Text("LEVEL"), "info",
        "How much is logged: off, error, warn, info, debug or trace. Single modules can differ, \
         as in \"info,everpost::broker=debug\"."),
    setting("egress.allow", Kind::List("NETWORK"), "",
        "Networks that webhooks may be called in although they are not public, such as \
         127.0.0.0/8 for receivers on this machine or 10.0.0.0/8 for a private network."),
    setting("egress.require_https", Kind::Switch, "false",
        "Refuses webhooks whose URL is not https."),
    setting("azure.subscription_id", Kind::Text("UUID"), "00000000-0000-0000-0000-000000000000",
        "Azure subscription in the resource ids that clients and receivers see: a UUID."),
    setting("azure.resource_group", Kind::Text("NAME"), "everpost",
        "Azure resource group in the resource ids that clients and receivers see."),
    setting("webhook.origin", Kind::Text("HOST"), "eventgrid.azure.net",
        "Host name by which the appliance introduces itself to receivers of CloudEvents."),
    setting("delivery.in_flight_per_subscription", Kind::Number, "32",
        "Requests that may be under way to one event subscription at once, 1 to 10000."),
    setting("delivery.in_flight_max", Kind::Number, "1024",
        "Requests that may be under way at once over all event subscriptions, 1 to 10000."),
    setting("delivery.response_deadline_s", Kind::Number, "30",
        "Seconds that a webhook has to answer, 1 to 600."),
    setting("probation.mode", Kind::Text("hold|azure"), "hold",
        "What becomes of events that fall due while a subscription is on probation: \"hold\" lets them \
         wait, \"azure\" counts an attempt that is not made, and gives them up after a client error."),
    setting("probation.failures", Kind::Number, "10",
        "Failures in a row that put a subscription on probation, 1 to 1000000."),
    setting("probation.longest_s", Kind::Number, "3600",
        "Seconds that a probation lasts at most, 10 to 14400; each failed probe doubles it up to there."),
    setting("replay.resubmissions_max", Kind::Number, "10",
        "How many resubmissions may lead from an event to what it has become, 1 to 1000; one more is \
         refused, because something is going round in circles."),
    setting("publish.bytes_max", Kind::Number, "1048576",
        "Bytes of one publish request, and of one event in it, 1024 to 67108864."),
    secret("management.token",
        "Bearer token of the management API, at least 16 characters. Without it one is made and \
         kept in the file management.token of the data directory."),
    secret("master_key",
        "Key that the secrets in the database are sealed by: 32 bytes in base64, as from \
         `openssl rand -base64 32`. Without it one is made and kept in the file master.key of the data \
         directory. Older keys may stand behind it, a line each; what they sealed is sealed anew at the \
         next start."),
    setting("metrics.public", Kind::Switch, "false",
        "Answers /metrics without the management token."),
    setting("admin.enabled", Kind::Switch, "true",
        "Serves the admin pages."),
    setting("admin.hosts", Kind::List("HOST"), "",
        "Hosts, without ports, that browsers may reach the admin pages under, besides that of public_url, \
         the address that is listened on, and localhost: names such as events.lan, or addresses. \
         Requests for others are refused, since anybody can point a name of theirs here."),
    optional("admin.user", Kind::Text("NAME"), "admin",
        "Name of the administrator, for installations that nobody sets up by hand. Goes with \
         admin.password."),
    secret("admin.password",
        "Password of the administrator, at least 8 characters. Goes with admin.user."),
    setting("http.connections_max", Kind::Number, "10000",
        "Connections that are served at once, 1 to 1000000; more of them wait."),
    setting("http.connections_per_client", Kind::Number, "1000",
        "Connections that are served at once from one address (from one /64 network of IPv6), 1 to \
         1000000; more of them are closed. Behind a reverse proxy, as many as that opens."),
    setting("storage.min_free_mb", Kind::Number, "512",
        "Mebibytes that must be free on the disk of the data directory; with less, publishers are told \
         to come back later, while what is stored already is still delivered."),
    setting("retention.hours", Kind::Number, "168",
        "Hours for which an event is kept once all of its deliveries have ended, or once it was published \
         where nobody wanted it, 0 to 876000. What is still to be delivered stays, and so do dead letters."),
    setting("retention.max_mb", Kind::Number, "2048",
        "Mebibytes of the database past which delivered events go early, the oldest first; 0 for any \
         number."),
    optional("retention.dead_letter_hours", Kind::Number, "720",
        "Hours for which dead letters are kept, 0 to 876000. Without it they stay until they are \
         resubmitted."),
    optional("dead_letter.export_dir", Kind::Text("DIR"), "/srv/dead-letters",
        "Directory, which must exist, that dead letters of subscriptions with a StorageBlob destination \
         are exported to. Without it they stay in their queues, unless the destination names storage \
         of its own."),
    setting("dead_letter.export_delay_s", Kind::Number, "300",
        "Seconds that a dead letter waits for others to be exported with it, 0 to 86400."),
    setting("dead_letter.unavailable", Kind::Text("keep|drop"), "keep",
        "What becomes of dead letters whose storage does not take them for 4 hours: \"keep\" leaves them in \
         their queues and goes on trying, \"drop\" drops them as Azure does."),
    setting("shutdown.drain_s", Kind::Number, "25",
        "Seconds that a stop waits for deliveries under way, 0 to 3600. What takes longer is \
         delivered again after the next start."),
];

const fn setting(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key {
        name,
        kind,
        default: Some(default),
        example: default,
        secret: false,
        doc,
    }
}

const fn optional(name: &'static str, kind: Kind, example: &'static str, doc: &'static str) -> Key {
    Key {
        name,
        kind,
        default: None,
        example,
        secret: false,
        doc,
    }
}

const fn secret(name: &'static str, doc: &'static str) -> Key {
    Key {
        name,
        kind: Kind::Text("TEXT"),
        default: None,
        example: "",
        secret: true,
        doc,
    }
}

impl Key {
    /// The setting of that name. Asking for one that does not exist is a mistake in the program.
    pub fn named(name: &str) -> &'static Key {
        let found = KEYS.iter().find(|key| key.name == name);
        found.expect("settings are asked for by names of the registry")
    }

    /// Its variable in the environment: `EVERPOST_LOG_LEVEL`.
    pub fn variable(&self) -> String {
        let name = self.name.replace('.', "_").to_ascii_uppercase();
        format!("{VARIABLE_PREFIX}{name}")
    }

    /// Its flag without the dashes: `log-level`; for a secret, that of its file: `admin-password-file`.
    pub fn flag(&self) -> String {
        let flag = self.name.replace(['.', '_'], "-");
        match self.secret {
            true => format!("{flag}-file"),
            false => flag,
        }
    }

    /// Values in the notation of the file.
    pub fn to_toml(&self, values: &[String]) -> String {
        match (self.kind, values) {
            (Kind::Number | Kind::Switch, [value]) => value.clone(),
            (Kind::Text(_), [value]) => quoted(value),
            (Kind::List(_), values) => {
                let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
                format!("[{}]", values.join(", "))
            }
            (Kind::Text(_) | Kind::Number | Kind::Switch, values) => quoted(&values.join(",")),
        }
    }

    /// The single values of a text in the form of the environment.
    pub fn split(&self, text: &str) -> Vec<String> {
        match self.kind {
            Kind::List(_) => {
                let values = text.split(',').map(str::trim);
                values
                    .filter(|value| !value.is_empty())
                    .map(str::to_owned)
                    .collect()
            }
            Kind::Text(_) | Kind::Number | Kind::Switch => vec![text.to_owned()],
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
