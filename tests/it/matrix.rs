//! The matrix of rights: each rule, token, entity, operation and spelling, over AMQP, REST and ATOM, against one
//! table of what may be.
//!
//! Cells are drawn by a seed. More of them: `EVERPOST_CELLS=20000 cargo test --release --test it matrix`.

mod client;
mod table;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request, StatusCode};
use everpost::api::amqp::SharedServer;
use everpost::api::{Memory, amqp_server};
use everpost::model::access::Secret;
use everpost::model::name::TopicName;
use everpost::wire::service_bus::sas;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::grid::{Grid, TOKEN};
use crate::sim::dice::Dice;
use client::AmqpClient;
use table::{
    Answer, Bound, Cell, DEFINED, Door, ENTITIES, Expiry, KeyOf, OPERATIONS, RESOURCES, RULES,
    Rule, SPELLINGS,
};

/// Cells that every test run looks at.
const CELLS: u64 = 3_000;

/// Wrong cells that are shown.
const SHOWN_MAX: usize = 40;

/// How long a valid token lasts.
const VALID: Duration = Duration::from_secs(600);

/// An appliance with the entities and rules of the table.
struct Appliance {
    grid: Grid,
    amqp: SharedServer,
    /// The first key of each rule of the table that is defined, and of each entity.
    keys: Vec<(&'static str, Secret)>,
}

impl Appliance {
    async fn new() -> Self {
        let grid = Grid::new().await;
        for path in [
            "/queues/jobs",
            "/queues/others",
            "/serviceBusTopics/orders",
            "/serviceBusTopics/orders/subscriptions/all",
        ] {
            put(&grid, path, json!({ "properties": {} })).await;
        }
        let mut keys = vec![(table::ROOT, Secret::new(TOKEN))];
        for (name, rights) in DEFINED {
            let path = format!("/everpost/accessRules/{}", name.replace('/', "%2F"));
            put(&grid, &path, json!({ "rights": rights })).await;
            keys.push((name, key_at(&grid, &path).await));
        }
        for entity in ["jobs", "orders"] {
            let name = TopicName::custom(entity).expect("a name");
            let found = grid.broker.topic(&name).expect("the entity");
            let own = found.topic.keys.as_ref().expect("keys");
            keys.push((entity, own.key1.clone()));
        }
        let name = "matrix".to_owned();
        let memory = Memory::default();
        let amqp = amqp_server(&grid.state, name, memory, CancellationToken::new());
        Self { grid, amqp, keys }
    }

    fn key(&self, of: KeyOf) -> Secret {
        let name = match of {
            KeyOf::Rule(name) | KeyOf::Entity(name) => name,
            KeyOf::Nobody => return Secret::new("bm9ib2R5J3Mga2V5"),
        };
        let found = self.keys.iter().find(|(each, _)| *each == name);
        found
            .unwrap_or_else(|| panic!("{name} is defined"))
            .1
            .clone()
    }

    fn token(&self, rule: &Rule, resource: &str) -> String {
        let now = self.grid.clock.now();
        let expires_at = match rule.expiry {
            Expiry::Ahead => now + VALID,
            Expiry::Past => now,
        };
        sas::sign(resource, rule.name, expires_at, &self.key(rule.key))
    }

    /// Does what a cell says, as a client with an address of its own.
    async fn answer(&self, cell: &Cell, number: u32) -> Answer {
        let client = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number));
        match cell.operation.door {
            Door::Rest | Door::Atom => self.answer_http(cell, client).await,
            Door::Amqp | Door::AmqpRequest => {
                let mut amqp = AmqpClient::connect(&self.amqp, client);
                let token = self.token(cell.rule, cell.resource.text);
                amqp.talk(cell, Some(&token)).await
            }
            Door::Plain => {
                let key = self.key(cell.rule.key);
                let mut amqp = AmqpClient::plain(&self.amqp, client, cell.rule.name, &key);
                amqp.talk(cell, None).await
            }
        }
    }

    async fn answer_http(&self, cell: &Cell, client: IpAddr) -> Answer {
        let method = cell.operation.method.parse::<Method>().expect("a method");
        let mut request = Request::builder()
            .method(method)
            .uri(cell.path())
            .header("host", "everpost.test")
            .header("authorization", self.token(cell.rule, cell.resource.text))
            .body(Body::from("text"))
            .expect("a request");
        let client = ConnectInfo(SocketAddr::new(client, 1));
        request.extensions_mut().insert(client);
        let answer = self.grid.send(request).await;
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Answer::Denied,
            status if status.is_success() => Answer::Done,
            StatusCode::TOO_MANY_REQUESTS => panic!("{cell}: a client of its own was slowed down"),
            status if status.is_server_error() => panic!("{cell}: {status}: {}", answer.text),
            _ => Answer::Missing,
        }
    }
}

async fn put(grid: &Grid, path: &str, body: Value) {
    let answer = grid.manage(Method::PUT, path, body).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
}

async fn key_at(grid: &Grid, path: &str) -> Secret {
    let path = format!("{path}/listKeys");
    let answer = grid.manage(Method::POST, &path, Value::Null).await;
    Secret::new(answer.json()["key1"].as_str().expect("a key"))
}

/// Every cell of the table in a fixed order, of which a seed draws some.
fn cell(dice: &Dice) -> Option<Cell> {
    let entity = dice.pick(&ENTITIES);
    let operation = dice.pick(&OPERATIONS);
    let rule = dice.pick(&RULES);
    // Passwords do not expire.
    let is_passing = operation.door == Door::Plain && rule.expiry == Expiry::Past;
    if !operation.is_at(entity) || is_passing {
        return None;
    }
    let spellings: Vec<_> = SPELLINGS
        .iter()
        .filter(|spelling| spelling.is_for(operation.door))
        .collect();
    // Half of the cells are as clients write them.
    let spelling = if dice.percent(50) {
        spellings[0]
    } else {
        *dice.pick(&spellings)
    };
    let resources: Vec<_> = RESOURCES.iter().collect();
    let resource = if dice.percent(40) {
        resources[dice.index(table::PLAIN_RESOURCES)]
    } else {
        *dice.pick(&resources)
    };
    Some(Cell {
        rule,
        resource,
        entity,
        operation,
        spelling,
    })
}

#[tokio::test]
async fn every_right_opens_what_the_table_says_and_nothing_else() {
    let cells = std::env::var("EVERPOST_CELLS").map_or(CELLS, |text| {
        text.parse().expect("EVERPOST_CELLS is a number")
    });
    let appliance = Appliance::new().await;
    let dice = Dice::new(1);
    let (mut wrong, mut done, mut number) = (Vec::new(), 0, 0);
    while number < cells {
        let Some(cell) = cell(&dice) else {
            continue;
        };
        number += 1;
        let client = u32::try_from(number).expect("a number of a client");
        let answer = appliance.answer(&cell, client).await;
        done += u64::from(answer == Answer::Done);
        let expected = cell.bound();
        let is_right = match expected {
            Bound::Exactly(expected) => answer == expected,
            Bound::AtMost => answer != Answer::Done || cell.may_be_done(),
        };
        if !is_right {
            wrong.push(format!("{cell}: {answer:?}, but {expected:?}"));
        }
    }
    let count = wrong.len();
    wrong.truncate(SHOWN_MAX);
    assert!(
        wrong.is_empty(),
        "{count} of {cells} cells are wrong:\n{}",
        wrong.join("\n")
    );
    assert!(
        done * 20 > cells,
        "only {done} of {cells} cells open anything"
    );
    println!("{cells} cells, of which {done} open something");
    appliance.grid.leave();
}
