//! A simulation: step after step by the dice, and a look at everything after each.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use everpost::base::{Clock, Timestamp};
use everpost::model::probation::{ProbationMode, ProbationRules};
use everpost::model::retention::RetentionRules;
use everpost::store::views::EventQuery;
use serde_json::{Value, json};

use super::dice::Dice;
use super::event::Input;
use super::ledger::{Ledger, Limits, NAMESPACE, Standing, Sub, Topic};
use super::life::{Ground, Life};
use super::spec::{Kind, Spec, seconds};
use super::watch;
use super::world::{Mood, Scene, World};

/// When every simulation begins: 2026-11-21T12:00:00Z.
const START: Timestamp = Timestamp::from_ms(1_795_262_400_000);

/// Moments of one passing of time, and of the end, at which something may happen; then the rest comes
/// later, or something never ends.
const MOMENTS_MAX: usize = 150;
const MOMENTS_OF_THE_END_MAX: usize = 20_000;

/// How a simulation ended.
pub(super) struct Ending {
    pub(super) violation: Option<String>,
    pub(super) trace: String,
    pub(super) hash: u64,
    /// Events accepted, requests made, and seconds that passed.
    pub(super) size: [u64; 3],
}

pub(super) struct Simulation {
    seed: u64,
    pub(super) dice: Dice,
    pub(super) ground: Ground,
    pub(super) clock: Clock,
    life: Option<Life>,
    disk_is_full: bool,
    pub(super) receivers: u32,
}

/// Plays the seed to its end, or to the first rule that is broken.
pub(super) fn play(seed: u64) -> Ending {
    let dice = Dice::new(seed);
    let limits = Limits {
        per_subscription: usize::try_from(dice.within(1, 4)).expect("small"),
        overall: usize::try_from(dice.within(2, 10)).expect("small"),
    };
    let probation = ProbationRules {
        failures: u32::try_from(dice.within(2, 10)).expect("small"),
        longest: seconds(*dice.pick(&[60, 3_600])),
        mode: *dice.pick(&[ProbationMode::Hold, ProbationMode::Azure]),
    };
    let other_dice = |number: u64| Dice::new(seed.wrapping_mul(31).wrapping_add(number << 40));
    let scene = Scene::new(Ledger::new(START, limits), other_dice(1));
    let world = Arc::new(World::new(scene));
    let retention = RetentionRules {
        delivered: seconds(*dice.pick(&[60, 3_600, 604_800])),
        dead_letters: dice.maybe(30, || seconds(*dice.pick(&[60, 3_600, 86_400]))),
        bytes_max: None,
    };
    let ground = Ground::new(world, other_dice(2), probation, limits, retention);
    let mut simulation = Simulation {
        seed,
        dice,
        ground,
        clock: Clock::simulated(START),
        life: None,
        disk_is_full: false,
        receivers: 0,
    };
    simulation.begin();
    for _ in 0..simulation.dice.within(10, 35) {
        if simulation.is_broken() {
            break;
        }
        simulation.step();
    }
    simulation.end();
    simulation.life = None;
    let mut scene = simulation.ground.world.scene();
    let ledger = &mut scene.ledger;
    ledger.note("the end");
    let sent = ledger.events.iter().flat_map(|event| event.pairs.values());
    let sent: usize = sent.map(|pair| pair.sent.len()).sum();
    Ending {
        violation: ledger.violation.take(),
        trace: ledger.trace(),
        hash: ledger.hash(),
        size: [
            ledger.events.len() as u64,
            sent as u64,
            ledger.now.since(START).as_secs(),
        ],
    }
}

impl Simulation {
    pub(super) fn life(&self) -> &Life {
        self.life.as_ref().expect("a running appliance")
    }

    pub(super) fn with<T>(&self, use_it: impl FnOnce(&mut Ledger) -> T) -> T {
        use_it(&mut self.ground.world.scene().ledger)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.with(|ledger| ledger.violation.is_some())
    }

    fn begin(&mut self) {
        self.start();
        for number in 0..self.dice.within(1, 4) {
            self.create_topic(format!("topic{number}"));
        }
        for _ in 0..self.dice.within(1, 8) {
            self.create_subscription();
        }
    }

    fn step(&mut self) {
        if self.dice.percent(10) {
            self.crash_meanwhile();
            return;
        }
        match self.dice.weighted(&[32, 34, 8, 10, 4, 3, 3, 4, 3, 12]) {
            0 => self.publish(),
            1 => self.let_time_pass(),
            2 => self.change_mood(),
            3 => self.change_subscription(),
            4 => self.crash(),
            5 => self.toggle_disk(),
            6 => self.resubmit(),
            7 => self.prune(),
            8 => self.create_subscription(),
            _ => self.pull(),
        }
        self.check();
    }

    fn start(&mut self) {
        // Reading needs no room.
        // No life throws what another one has thrown: locks outlive them.
        let lives = self.with(|ledger| u64::from(ledger.life));
        let seed = self.seed.wrapping_add(lives << 48);
        let life = Life::start(&self.ground, &self.clock, seed).expect("a start");
        self.life = Some(life);
    }

    fn crash(&mut self) {
        self.check();
        self.die();
    }

    /// Crashes before everything has happened that follows from a request.
    fn crash_meanwhile(&mut self) {
        self.life().be_cut_off(self.dice.within(0, 30));
        match self.dice.percent(70) {
            true => self.publish(),
            false => self.change_subscription(),
        }
        self.die();
    }

    fn die(&mut self) {
        self.with(|ledger| ledger.note("crash"));
        self.life = None;
        self.ground.world.scene().crash();
        // Whoever starts may send at once, and is judged by what was seen last.
        let live = self.with(|ledger| ledger.live.iter().copied().collect::<Vec<_>>());
        self.check_these(&live);
        let down = seconds(self.dice.within(0, 90));
        let now = match self.dice.percent(15) {
            true => self.clock.now() - seconds(self.dice.within(1, 4_000)),
            false => self.clock.now() + down,
        };
        self.with(|ledger| {
            ledger.clock_went_back |= now < ledger.now;
            ledger.now = now;
            ledger.note("start");
        });
        self.clock = Clock::simulated(now);
        self.start();
        self.check_all();
    }

    fn toggle_disk(&mut self) {
        self.disk_is_full = !self.disk_is_full;
        let full = self.disk_is_full;
        self.with(|ledger| {
            ledger.disk_was_full = true;
            ledger.note(format!("the disk is full: {full}"));
        });
        self.ground.database.set_full(full).expect("a limit");
        if !full {
            // Whoever waits for room asks again within a minute.
            let end = self.clock.now() + seconds(61);
            self.run_until(end, MOMENTS_OF_THE_END_MAX);
            self.with(|ledger| {
                ledger.disk_was_full = false;
                for sub in &mut ledger.subs {
                    sub.owes_success = false;
                }
            });
        }
    }

    fn prune(&mut self) {
        self.sweep();
        let life = self.life();
        let done = life.act(life.broker.retain());
        self.with(|ledger| {
            ledger.note(format!("retention: {done:?}"));
            if done.is_err() && !ledger.disk_was_full {
                ledger.broken("retention fails");
            }
        });
        self.check_all();
    }

    fn sweep(&self) {
        let life = self.life();
        let done = life.act(life.broker.sweep());
        self.with(|ledger| {
            ledger.note(format!("sweep: {done:?}"));
            if done.is_err() && !ledger.disk_was_full {
                ledger.broken("the sweep fails");
            }
        });
    }

    fn change_mood(&mut self) {
        let mut scene = self.ground.world.scene();
        let subs = &scene.ledger.subs;
        if subs.is_empty() {
            return;
        }
        let host = subs[self.dice.index(subs.len())].spec().host.clone();
        scene.change_mood(&host);
    }

    fn let_time_pass(&mut self) {
        let time = match self.dice.weighted(&[30, 30, 20, 10, 6, 4]) {
            0 => Duration::from_millis(self.dice.within(1, 2_000)),
            1 => seconds(self.dice.within(1, 60)),
            2 => seconds(self.dice.within(60, 900)),
            3 => seconds(self.dice.within(900, 10_000)),
            4 => seconds(self.dice.within(10_000, 90_000)),
            _ => {
                // Somebody sets the clock ahead: nobody had a chance to do anything in between.
                let jump = seconds(self.dice.within(30, 20_000));
                self.with(|ledger| {
                    ledger.note(format!("the clock jumps by {jump:?}"));
                    ledger.clock_jumps = true;
                });
                self.life().pass(jump);
                self.with(|ledger| ledger.clock_jumps = false);
                return;
            }
        };
        let end = self.clock.now() + time;
        self.run_until(end, MOMENTS_MAX);
    }

    /// Serves everything that happens up to `end`, moment by moment.
    pub(super) fn run_until(&mut self, end: Timestamp, moments_max: usize) {
        for _ in 0..moments_max {
            let now = self.clock.now();
            let next = self.next_moment().unwrap_or(end).min(end);
            self.life()
                .pass(next.since(now).max(Duration::from_millis(1)));
            let moved = self.with(|ledger| ledger.may_have_moved());
            self.check_these(&moved);
            self.check_subscriptions();
            if next >= end || self.is_broken() {
                return;
            }
        }
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let due = self.life().broker.next_due();
        let due = due.map(|due| due + Duration::from_millis(1));
        let said = self.ground.world.scene().next_moment();
        let again = self.disk_is_full.then(|| self.clock.now() + seconds(1));
        due.into_iter().chain(said).chain(again).min()
    }

    fn create_topic(&mut self, name: String) {
        let input = *self.dice.pick(&Input::ALL);
        let mut topic = Topic {
            name,
            input,
            key: String::new(),
        };
        let life = self.life();
        let (key, made) = life.act(async {
            if input == Input::Namespace {
                let namespace = json!({"location": "local"});
                life.manage(Method::PUT, NAMESPACE, &namespace).await;
            }
            let path = topic.path();
            let (made, _) = life.manage(Method::PUT, &path, &input.topic_body()).await;
            let path = topic.keys_path();
            let (_, keys) = life.manage(Method::POST, &path, &Value::Null).await;
            (keys["key1"].as_str().map(ToOwned::to_owned), made)
        });
        topic.key = key.unwrap_or_default();
        self.with(|ledger| {
            ledger.note(format!("{} takes {input:?}: {made}", topic.name));
            ledger.topics.push(topic);
        });
    }

    fn create_subscription(&mut self) {
        let topics = self.with(|ledger| ledger.topics.len());
        let topic = self.dice.index(topics);
        self.receivers += 1;
        let number = self.receivers;
        let input = self.with(|ledger| ledger.topics[topic].input);
        let now = self.clock.now();
        let kind = Kind::throw(&self.dice, input);
        let spec = Spec::throw(&self.dice, format!("r{number}.test"), kind, input, now);
        let (body, host) = (spec.body(), spec.host.clone());
        let name = format!("sub{number}");
        let path = self.path(topic, &name);
        // Before the answer: the dispatcher may be quicker than it.
        let index = self.with(|ledger| {
            ledger.subs.push(Sub::new(topic, name, (now, spec)));
            ledger.subs.len() - 1
        });
        let life = self.life();
        let (status, answer) = life.act(life.manage(Method::PUT, &path, &body));
        self.learn_id(index);
        self.with(|ledger| {
            if status >= 400 {
                ledger.note(answer.to_string());
            }
            ledger.note(format!("create r{index} at {host}: {status} {body}"));
            if status == 503 && ledger.disk_was_full {
                ledger.subs[index].deleted = Some((now, false));
            } else if status != 201 {
                ledger.broken(format!("{status} to the creation of a subscription"));
            }
        });
        if self.dice.percent(45) {
            self.ground.world.scene().change_mood(&host);
        }
    }

    fn learn_id(&self, index: usize) {
        let registry = self.life().broker.registry();
        self.with(|ledger| {
            let sub = &mut ledger.subs[index];
            let mut all = registry.subscriptions();
            let found = all.find(|(_, each)| each.name.as_str() == sub.name);
            sub.id = found.map(|(_, found)| found.id);
        });
    }

    pub(super) fn path(&self, topic: usize, name: &str) -> String {
        let topic = self.with(|ledger| ledger.topics[topic].path());
        format!("{topic}/eventSubscriptions/{name}")
    }

    /// Holds what is stored of everything that lives against the rules.
    pub(super) fn check(&mut self) {
        let live = self.with(|ledger| ledger.live.iter().copied().collect::<Vec<_>>());
        self.check_these(&live);
        self.check_subscriptions();
    }

    fn check_subscriptions(&self) {
        let life = self.life();
        self.with(|ledger| {
            if let Err(rule) = watch::check_not_forgotten(ledger, &life.broker) {
                ledger.broken(rule);
            }
            for sub in &mut ledger.subs {
                let health = sub.id.map(|id| life.broker.health_of(id));
                let probation = health.and_then(|health| health.probation);
                sub.probation_until = probation.map(|probation| probation.until);
                sub.changed = false;
            }
        });
    }

    /// The same for everything that ever was.
    fn check_all(&mut self) {
        let all = self.with(|ledger| (0..ledger.events.len()).collect::<Vec<_>>());
        self.check_these(&all);
    }

    fn check_these(&self, events: &[usize]) {
        self.see_gone();
        for event in events {
            let there = self.with(|ledger| {
                let event = &ledger.events[*event];
                event.key.filter(|_| event.standing != Standing::Gone)
            });
            let Some(key) = there else {
                continue;
            };
            let stored = match &self.life {
                Some(life) => life.look(life.store.views.event(key)).expect("an answer"),
                None => self.ground.look(key),
            };
            self.with(|ledger| {
                let checked = match &stored {
                    Some(stored) => watch::check_event(ledger, *event, stored),
                    None => watch::check_gone(ledger, *event, &self.ground.retention),
                };
                if let Err(rule) = checked {
                    let id = ledger.events[*event].draft.id.clone();
                    ledger.broken(format!("{id}: {rule}"));
                }
                if ledger.events[*event].has_ended() {
                    ledger.live.remove(event);
                } else {
                    ledger.live.insert(*event);
                }
            });
        }
    }

    /// A subscription whose receiver answered 410 is disabled, if that was its wish.
    fn see_gone(&self) {
        let Some(life) = &self.life else {
            return;
        };
        let registry = life.broker.registry();
        self.with(|ledger| {
            let now = ledger.now;
            for sub in &mut ledger.subs {
                let found = sub.id.and_then(|id| registry.subscription(id));
                let Some((_, stored)) = found else {
                    continue;
                };
                let (disabled, spec) = (stored.definition.disabled.is_some(), sub.spec());
                if disabled && !spec.disabled && spec.disable_on_gone {
                    let gone = spec.clone().disabled();
                    sub.specs.push((now, gone));
                }
                if disabled != sub.spec().disabled {
                    let rule = format!("{} is disabled: {disabled}", sub.name);
                    return ledger.broken(rule);
                }
            }
        });
    }

    /// The newest events by their ids, newest first.
    pub(super) fn newest(&self, limit: usize) -> Vec<(String, everpost::model::event::EventKey)> {
        let life = self.life();
        let query = EventQuery {
            limit,
            ..EventQuery::default()
        };
        let page = life.look(life.store.views.events(query)).expect("a page");
        let rows = page.rows.into_iter();
        rows.map(|row| (row.id, row.key)).collect()
    }

    /// Heals everything, and waits until nothing is left to be done.
    fn end(&mut self) {
        if self.is_broken() {
            return;
        }
        self.with(|ledger| ledger.note("everything is well from now on"));
        if self.disk_is_full {
            self.toggle_disk();
        }
        let hosts: Vec<String> = self.with(|ledger| {
            let subs = ledger.subs.iter();
            subs.map(|sub| sub.spec().host.clone()).collect()
        });
        for host in hosts {
            self.ground.world.scene().moods.insert(host, Mood::Well);
        }
        for sub in 0..self.with(|ledger| ledger.subs.len()) {
            self.resume(sub);
        }
        // Ends what deleted subscriptions left behind, too.
        self.crash();
        self.drain();
        for _ in 0..MOMENTS_OF_THE_END_MAX {
            let left = self.with(|ledger| ledger.live.len());
            if left == 0 || self.is_broken() {
                break;
            }
            // Nobody comes any more for what is pulled.
            self.sweep();
            self.check();
            let end = self.clock.now() + seconds(24 * 3_600);
            self.run_until(end, 1);
        }
        self.crash();
        self.with(|ledger| {
            let rejected = |event: &&super::ledger::Event| event.standing != Standing::Rejected;
            let open = ledger
                .events
                .iter()
                .filter(rejected)
                .find(|event| !event.has_ended());
            if let Some(open) = open.map(|open| open.draft.id.clone()) {
                ledger.broken(format!("{open} never ends"));
            }
        });
    }
}
