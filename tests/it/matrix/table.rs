//! The table of what may be: rules, resources of tokens, entities, operations, and how all of them are spelled.

use std::fmt;

pub(super) use everpost::model::shared_access::ROOT_RULE as ROOT;

/// Rules as the management API takes them, those of an entity with its name in front.
pub(super) const DEFINED: [(&str, &[&str]); 9] = [
    ("all-send", &["Send"]),
    ("all-listen", &["Listen"]),
    ("all-use", &["Send", "Listen"]),
    ("all-manage", &["Manage"]),
    ("jobs/send", &["Send"]),
    ("jobs/own", &["Manage"]),
    ("others/own", &["Manage"]),
    ("orders/listen", &["Listen"]),
    ("orders/own", &["Manage"]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    Send,
    Listen,
    Manage,
}

/// Whose key a client signs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyOf {
    Rule(&'static str),
    Entity(&'static str),
    Nobody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    Ahead,
    Past,
}

/// What a rule opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Namespace,
    Entity(&'static str),
    Nothing,
}

/// A rule as a client names it, the key that the client has, and what the two open together.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) key: KeyOf,
    pub(super) expiry: Expiry,
    pub(super) scope: Scope,
    pub(super) rights: &'static [Right],
}

const ALL: &[Right] = &[Right::Send, Right::Listen, Right::Manage];
const USE: &[Right] = &[Right::Send, Right::Listen];

const fn namespace_rule(name: &'static str, rights: &'static [Right]) -> Rule {
    Rule {
        name,
        key: KeyOf::Rule(name),
        expiry: Expiry::Ahead,
        scope: Scope::Namespace,
        rights,
    }
}

/// A rule by the name that it has in its entity, which is how Azure's clients name it.
const fn entity_rule(
    name: &'static str,
    key: KeyOf,
    entity: &'static str,
    rights: &'static [Right],
) -> Rule {
    Rule {
        name,
        key,
        expiry: Expiry::Ahead,
        scope: Scope::Entity(entity),
        rights,
    }
}

const fn wrong(name: &'static str, key: KeyOf) -> Rule {
    Rule {
        name,
        key,
        expiry: Expiry::Ahead,
        scope: Scope::Nothing,
        rights: &[],
    }
}

pub(super) const RULES: [Rule; 21] = [
    namespace_rule(ROOT, ALL),
    namespace_rule("all-send", &[Right::Send]),
    namespace_rule("all-listen", &[Right::Listen]),
    namespace_rule("all-use", USE),
    namespace_rule("all-manage", ALL),
    entity_rule("send", KeyOf::Rule("jobs/send"), "jobs", &[Right::Send]),
    entity_rule("own", KeyOf::Rule("jobs/own"), "jobs", ALL),
    entity_rule("own", KeyOf::Rule("others/own"), "others", ALL),
    entity_rule(
        "listen",
        KeyOf::Rule("orders/listen"),
        "orders",
        &[Right::Listen],
    ),
    entity_rule("own", KeyOf::Rule("orders/own"), "orders", ALL),
    entity_rule("key1", KeyOf::Entity("jobs"), "jobs", USE),
    entity_rule("key1", KeyOf::Entity("orders"), "orders", USE),
    // With the name of its entity: whatever resource it signs.
    entity_rule("jobs/own", KeyOf::Rule("jobs/own"), "jobs", ALL),
    entity_rule("others/own", KeyOf::Rule("others/own"), "others", ALL),
    wrong(ROOT, KeyOf::Rule("all-manage")),
    wrong("all-manage", KeyOf::Nobody),
    wrong("all-send", KeyOf::Rule("all-manage")),
    wrong("nobody", KeyOf::Rule("all-manage")),
    wrong("key2", KeyOf::Entity("jobs")),
    wrong("", KeyOf::Rule("all-manage")),
    Rule {
        expiry: Expiry::Past,
        ..wrong("all-manage", KeyOf::Rule("all-manage"))
    },
];

/// What the text of a token's resource may be read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// A path below the namespace, which is empty for all of it.
    Path(&'static str),
    /// That path, or nothing.
    PathOrNothing(&'static str),
    Nothing,
}

/// What a client signs.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) text: &'static str,
    pub(super) reading: Reading,
}

const fn path(text: &'static str, path: &'static str) -> Resource {
    Resource {
        text,
        reading: Reading::Path(path),
    }
}

const fn odd(text: &'static str, path: &'static str) -> Resource {
    Resource {
        text,
        reading: Reading::PathOrNothing(path),
    }
}

const fn nothing(text: &'static str) -> Resource {
    Resource {
        text,
        reading: Reading::Nothing,
    }
}

/// So many of the resources, the first ones, are as clients write them.
pub(super) const PLAIN_RESOURCES: usize = 7;

pub(super) const RESOURCES: [Resource; 30] = [
    path("http://everpost.test/", ""),
    path("sb://everpost.test", ""),
    path("http://everpost.test/jobs", "jobs"),
    path("sb://everpost.test/others", "others"),
    path("http://everpost.test/orders", "orders"),
    path(
        "sb://everpost.test/orders/Subscriptions/all",
        "orders/subscriptions/all",
    ),
    path("amqps://everpost.test/jobs/", "jobs"),
    path("http://EVERPOST.test/JOBS", "jobs"),
    path(
        "sb://everpost.test/ORDERS/subscriptions/ALL",
        "orders/subscriptions/all",
    ),
    odd("sb://everpost.test:5671/jobs", "jobs"),
    odd("jobs", "jobs"),
    odd("/jobs", "jobs"),
    odd("", ""),
    odd("/", ""),
    odd("http://everpost.test//jobs", "jobs"),
    odd("http://everpost.test/%6Aobs", "jobs"),
    odd(
        "http://everpost.test/jobs/$DeadLetterQueue",
        "jobs/$deadletterqueue",
    ),
    odd("http://evil.example/jobs", "jobs"),
    odd("http://evil.example/", ""),
    nothing("http://everpost.test/job"),
    nothing("http://everpost.test/jobsjobs"),
    nothing("http://everpost.test/missing"),
    odd("everpost.test/jobs", "jobs"),
    nothing("evil/jobs"),
    nothing("http://everpost.test/jobs/../others"),
    nothing("http://everpost.test/?x://y/jobs"),
    nothing("everpost.test?x://y/jobs"),
    nothing("http://everpost.test#x://y/jobs"),
    nothing("http://jobs@everpost.test/"),
    nothing("http://everpost.test/x://y/jobs"),
];

/// Something that can be sent to, received from or managed.
#[derive(Debug)]
pub(super) struct Entity {
    /// In lower case.
    path: &'static str,
    /// As clients write it.
    text: &'static str,
    kind: EntityKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntityKind {
    Queue,
    Topic,
    Subscription,
    DeadLetters,
    Missing,
}

const fn entity(path: &'static str, text: &'static str, kind: EntityKind) -> Entity {
    Entity { path, text, kind }
}

pub(super) const ENTITIES: [Entity; 7] = [
    entity("jobs", "jobs", EntityKind::Queue),
    entity("others", "others", EntityKind::Queue),
    entity("orders", "orders", EntityKind::Topic),
    entity(
        "orders/subscriptions/all",
        "orders/Subscriptions/all",
        EntityKind::Subscription,
    ),
    entity(
        "jobs/$deadletterqueue",
        "jobs/$DeadLetterQueue",
        EntityKind::DeadLetters,
    ),
    entity(
        "orders/subscriptions/all/$deadletterqueue",
        "orders/Subscriptions/all/$DeadLetterQueue",
        EntityKind::DeadLetters,
    ),
    entity("missing", "missing", EntityKind::Missing),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Rest,
    Atom,
    /// A link of a connection that has shown a token.
    Amqp,
    /// A request to the entity's `$management`.
    AmqpRequest,
    /// A link of a connection whose user and password are a rule and its key.
    Plain,
}

#[derive(Debug)]
pub(super) struct Operation {
    pub(super) door: Door,
    pub(super) right: Right,
    /// Of a request over HTTP.
    pub(super) method: &'static str,
    /// Behind the path of the entity.
    below: &'static str,
}

const fn operation(
    door: Door,
    right: Right,
    method: &'static str,
    below: &'static str,
) -> Operation {
    Operation {
        door,
        right,
        method,
        below,
    }
}

pub(super) const OPERATIONS: [Operation; 9] = [
    operation(Door::Rest, Right::Send, "POST", "/messages"),
    operation(
        Door::Rest,
        Right::Listen,
        "POST",
        "/messages/head?timeout=0",
    ),
    operation(
        Door::Rest,
        Right::Listen,
        "DELETE",
        "/messages/head?timeout=0",
    ),
    operation(Door::Atom, Right::Manage, "GET", "?api-version=2021-05"),
    operation(Door::Amqp, Right::Send, "", ""),
    operation(Door::Amqp, Right::Listen, "", ""),
    operation(Door::AmqpRequest, Right::Listen, "", "/$management"),
    operation(Door::Plain, Right::Send, "", ""),
    operation(Door::Plain, Right::Listen, "", ""),
];

impl Operation {
    /// Tells whether the entity can be asked that at all.
    pub(super) fn is_at(&self, entity: &Entity) -> bool {
        match (entity.kind, self.door) {
            (EntityKind::Missing, _) => true,
            (EntityKind::DeadLetters, Door::Atom) => false,
            (_, Door::Atom) => true,
            (EntityKind::Topic, _) => self.right == Right::Send,
            (EntityKind::Subscription | EntityKind::DeadLetters, _) => self.right == Right::Listen,
            (EntityKind::Queue, _) => true,
        }
    }
}

/// A way to write an entity.
#[derive(Debug)]
pub(super) struct Spelling {
    name: &'static str,
    /// It is the entity, and nothing else, for everybody.
    is_exact: bool,
    is_for_http: bool,
    is_for_amqp: bool,
    write: fn(&str) -> String,
}

const fn anywhere(name: &'static str, is_exact: bool, write: fn(&str) -> String) -> Spelling {
    Spelling {
        name,
        is_exact,
        is_for_http: true,
        is_for_amqp: true,
        write,
    }
}

const fn in_amqp(name: &'static str, is_exact: bool, write: fn(&str) -> String) -> Spelling {
    Spelling {
        is_for_http: false,
        ..anywhere(name, is_exact, write)
    }
}

/// The first one is as clients write it.
pub(super) const SPELLINGS: [Spelling; 16] = [
    anywhere("plain", true, str::to_owned),
    anywhere("in upper case", true, str::to_uppercase),
    anywhere("in lower case", true, str::to_lowercase),
    anywhere("behind two slashes", false, |text| format!("/{text}")),
    anywhere("with two slashes", false, |text| text.replace('/', "//")),
    anywhere("with a slash behind", false, |text| format!("{text}/")),
    anywhere("percent-encoded", false, |text| {
        format!("%{:02X}{}", text.as_bytes()[0], &text[1..])
    }),
    anywhere("with encoded slashes", false, |text| {
        text.replace('/', "%2F")
    }),
    anywhere("percent-encoded twice", false, |text| {
        format!("%25{:02X}{}", text.as_bytes()[0], &text[1..])
    }),
    anywhere("by way of another", false, |text| {
        format!("others/../{text}")
    }),
    in_amqp("with a slash in front", true, |text| format!("/{text}")),
    in_amqp("with this host", true, |text| {
        format!("sb://everpost.test/{text}")
    }),
    in_amqp("with another host", false, |text| {
        format!("amqps://evil.example:1/{text}")
    }),
    in_amqp("with two schemes", false, |text| {
        format!("sb://everpost.test/others/x://y/{text}")
    }),
    in_amqp("with a query", false, |text| format!("others?x://y/{text}")),
    in_amqp("with a fragment", false, |text| format!("{text}#/others")),
];

impl Spelling {
    pub(super) fn is_for(&self, door: Door) -> bool {
        match door {
            Door::Rest | Door::Atom => self.is_for_http,
            Door::Amqp | Door::AmqpRequest | Door::Plain => self.is_for_amqp,
        }
    }
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    Denied,
    /// There is no such thing, or it cannot be read.
    Missing,
}

/// What the table says of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Exactly(Answer),
    /// It may be rejected in any way, and be done only if it may be.
    AtMost,
}

pub(super) struct Cell {
    pub(super) rule: &'static Rule,
    pub(super) resource: &'static Resource,
    pub(super) entity: &'static Entity,
    pub(super) operation: &'static Operation,
    pub(super) spelling: &'static Spelling,
}

impl Cell {
    /// The address of the entity as the client writes it.
    pub(super) fn address(&self) -> String {
        format!(
            "{}{}",
            (self.spelling.write)(self.entity.text),
            self.operation.below
        )
    }

    /// The path of the request.
    pub(super) fn path(&self) -> String {
        format!("/{}", self.address())
    }

    /// Tells whether anything may be done, with a token whose resource is read as that path.
    fn opens(&self, resource: &str) -> bool {
        let is_within = |path: &str, above: &str| {
            let below = path.strip_prefix(above);
            below
                .is_some_and(|below| above.is_empty() || below.is_empty() || below.starts_with('/'))
        };
        let is_in_scope = match self.rule.scope {
            Scope::Namespace => true,
            // By its own name a rule is found where the token is for its entity, or for something in it.
            Scope::Entity(entity) => {
                let is_found = self.rule.name.contains('/') || is_within(resource, entity);
                is_found && is_within(self.entity.path, entity)
            }
            Scope::Nothing => false,
        };
        is_in_scope
            && self.rule.rights.contains(&self.operation.right)
            && is_within(self.entity.path, resource)
    }

    /// Tells whether the operation may be done, if not everything about it is odd.
    pub(super) fn may_be_done(&self) -> bool {
        if self.entity.kind == EntityKind::Missing {
            return false;
        }
        match (self.operation.door, self.rule.scope) {
            (Door::Plain, Scope::Entity(entity)) => self.opens(entity),
            (Door::Plain, Scope::Namespace | Scope::Nothing) => self.opens(""),
            (Door::Rest | Door::Atom | Door::Amqp | Door::AmqpRequest, _) => {
                match self.resource.reading {
                    Reading::Path(path) | Reading::PathOrNothing(path) => self.opens(path),
                    Reading::Nothing => false,
                }
            }
        }
    }

    /// Returns what the table says of the cell.
    pub(super) fn bound(&self) -> Bound {
        let is_plain = self.operation.door == Door::Plain;
        // Passwords of one name may be those of several rules; the keys of entities are for tokens.
        let is_odd_rule = match self.rule.scope {
            Scope::Namespace | Scope::Nothing => false,
            Scope::Entity(_) => is_plain || self.rule.name.contains('/'),
        };
        let is_odd_resource = matches!(self.resource.reading, Reading::PathOrNothing(_));
        let is_exact = self.spelling.is_exact && !is_odd_rule && (is_plain || !is_odd_resource);
        if !is_exact || self.entity.kind == EntityKind::Missing {
            return Bound::AtMost;
        }
        Bound::Exactly(match self.may_be_done() {
            true => Answer::Done,
            false => Answer::Denied,
        })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule { name, key, .. } = self.rule;
        let (door, right) = (self.operation.door, self.operation.right);
        write!(
            f,
            "{door:?} {right:?} {} {:?} ({}), skn {name:?} by the key of {key:?}",
            self.operation.method,
            self.address(),
            self.spelling.name,
        )?;
        match door {
            Door::Plain => Ok(()),
            Door::Rest | Door::Atom | Door::Amqp | Door::AmqpRequest => {
                write!(f, ", sr {:?}", self.resource.text)
            }
        }
    }
}
