//! The receivers: each has its mood, answers when its moment has come, and looks at every request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use axum::http::HeaderMap;
use everpost::base::Timestamp;
use everpost::model::limits::LATE_ANSWER_WINDOW;
use everpost::outbound::PendingResponse;
use everpost::outbound::transport::{
    Responder, TransportError, TransportRequest, TransportResponse,
};
use tokio::sync::oneshot;

use super::dice::Dice;
use super::ledger::Ledger;
use super::request;
use super::spec::{Said, seconds};

/// How a receiver behaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mood {
    Well,
    Slow,
    /// Answers this so many times in a hundred, with this `Retry-After`.
    Says(u16, u64, Option<u64>),
    /// Never answers, or much later.
    Hangs {
        late: Option<u16>,
    },
    Rejects,
}

/// Statuses of all kinds that the tables know.
const STATUSES: [u16; 17] = [
    400, 401, 403, 404, 408, 410, 413, 414, 429, 429, 500, 503, 503, 204, 205, 302, 100,
];

pub(super) struct World {
    scene: Mutex<Scene>,
    /// Goes up whenever something happens.
    pub(super) ticks: AtomicU64,
}

pub(super) struct Scene {
    pub(super) ledger: Ledger,
    pub(super) dice: Dice,
    pub(super) moods: BTreeMap<String, Mood>,
    waiting: BTreeMap<u64, Waiting>,
    late: BTreeMap<u64, LateWaiting>,
    /// What the request that has just timed out may still bring.
    late_plan: Option<LatePlan>,
    next_number: u64,
}

/// The events of a request, with the subscription.
#[derive(Clone, Debug)]
pub(super) struct Cargo {
    pub(super) sub: usize,
    pub(super) events: Vec<usize>,
}

struct Waiting {
    at: Timestamp,
    said: Said,
    cargo: Cargo,
    publish_notices: oneshot::Sender<()>,
}

/// What comes after a time-out; no status where nobody listens any more by then.
struct LatePlan {
    asked_at: Timestamp,
    at: Timestamp,
    status: Option<u16>,
    cargo: Cargo,
}

struct LateWaiting {
    plan: LatePlan,
    publish_notices: oneshot::Sender<TransportResponse>,
}

impl World {
    pub(super) fn new(scene: Scene) -> Self {
        Self {
            scene: Mutex::new(scene),
            ticks: AtomicU64::new(0),
        }
    }

    pub(super) fn scene(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap()
    }

    pub(super) fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }
}

impl Scene {
    pub(super) fn new(ledger: Ledger, dice: Dice) -> Self {
        Self {
            ledger,
            dice,
            moods: BTreeMap::new(),
            waiting: BTreeMap::new(),
            late: BTreeMap::new(),
            late_plan: None,
            next_number: 0,
        }
    }

    pub(super) fn change_mood(&mut self, host: &str) {
        let dice = &self.dice;
        let asked = |dice: &Dice| dice.maybe(40, || *dice.pick(&[0, 5, 45, 700, 90_000]));
        let mood = match dice.weighted(&[30, 10, 35, 10, 8, 7]) {
            0 => Mood::Well,
            1 => Mood::Slow,
            2 => Mood::Says(*dice.pick(&STATUSES), *dice.pick(&[30, 100]), asked(dice)),
            3 => Mood::Hangs { late: None },
            4 => Mood::Hangs {
                late: Some(*dice.pick(&[200, 204, 500, 404])),
            },
            _ => Mood::Rejects,
        };
        self.ledger.note(format!("receiver {host} is now {mood:?}"));
        self.moods.insert(host.to_owned(), mood);
    }

    /// The next moment at which a receiver says something.
    pub(super) fn next_moment(&self) -> Option<Timestamp> {
        let waiting = self.waiting.values().map(|waiting| waiting.at);
        waiting
            .chain(self.late.values().map(|late| late.plan.at))
            .min()
    }

    /// The appliance is gone, and its connections with it.
    pub(super) fn crash(&mut self) {
        self.waiting.clear();
        self.late.clear();
        self.late_plan = None;
        self.ledger.crash();
    }

    /// Lets the receivers say what they have to say by now.
    pub(super) fn speak(&mut self) {
        let now = self.ledger.now;
        let due: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.at <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in due {
            let Some(waiting) = self.waiting.remove(&number) else {
                continue;
            };
            request::answered(&mut self.ledger, &waiting.cargo, waiting.said);
            let _ = waiting.publish_notices.send(());
        }
        let due: Vec<u64> = self
            .late
            .iter()
            .filter(|(_, late)| late.plan.at <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in due {
            let Some(LateWaiting {
                plan,
                publish_notices,
            }) = self.late.remove(&number)
            else {
                continue;
            };
            // Dropping `publish_notices` ends the listening.
            if let Some(status) = plan.status {
                request::answered_late(&mut self.ledger, &plan.cargo, plan.asked_at, status);
                let _ = publish_notices.send(answer(status, None));
            }
        }
    }

    fn receive(&mut self, request: &TransportRequest) -> ReceiveRequest {
        let host = request.url.host_str().unwrap_or_default();
        let reaction = self.reaction(request, host);
        let cargo = request::arrived(&mut self.ledger, request);
        let now = self.ledger.now;
        let late = reaction.late.map(|(status, after)| {
            let (asked, window) = (now + seconds(after), now + LATE_ANSWER_WINDOW);
            LatePlan {
                asked_at: now,
                at: asked.min(window),
                status: (asked < window).then_some(status),
                cargo: cargo.clone(),
            }
        });
        let told = match reaction.at {
            None => {
                request::answered(&mut self.ledger, &cargo, reaction.said);
                None
            }
            Some(at) => {
                let (publish_notices, told) = oneshot::channel();
                let said = reaction.said;
                self.next_number += 1;
                let waiting = Waiting {
                    at,
                    said,
                    cargo,
                    publish_notices,
                };
                self.waiting.insert(self.next_number, waiting);
                Some(told)
            }
        };
        ReceiveRequest {
            said: reaction.said,
            late,
            told,
        }
    }

    fn reaction(&mut self, request: &TransportRequest, host: &str) -> Reaction {
        let (dice, now) = (&self.dice, self.ledger.now);
        let deadline = now + request.deadline;
        let millis = |ms: u64| now + Duration::from_millis(ms);
        match *self.moods.get(host).unwrap_or(&Mood::Well) {
            Mood::Well if dice.percent(60) => Reaction::now(Said::Status(200, None)),
            Mood::Well => Reaction::at(millis(dice.within(1, 900)), Said::Status(202, None)),
            Mood::Slow => {
                let at = now + seconds(dice.within(1, 40));
                match at < deadline {
                    true => Reaction::at(at, Said::Status(200, None)),
                    false => Reaction::at(deadline, Said::TimedOut),
                }
            }
            Mood::Says(status, percent, asked) if dice.percent(percent) => {
                let said = Said::Status(status, asked.filter(|_| matches!(status, 429 | 503)));
                match dice.percent(50) {
                    true => Reaction::now(said),
                    false => Reaction::at(millis(dice.within(1, 3_000)).min(deadline), said),
                }
            }
            Mood::Says(..) => Reaction::now(Said::Status(200, None)),
            Mood::Hangs { late } => Reaction {
                late: late.map(|status| (status, dice.within(1, 300))),
                ..Reaction::at(deadline, Said::TimedOut)
            },
            Mood::Rejects => Reaction::now(Said::Rejected),
        }
    }
}

/// A request that has been looked at.
struct ReceiveRequest {
    said: Said,
    late: Option<LatePlan>,
    /// When it is to be answered; `None` for at once.
    told: Option<oneshot::Receiver<()>>,
}

/// What a receiver makes of a request.
struct Reaction {
    /// `None` for at once.
    at: Option<Timestamp>,
    said: Said,
    /// A status, and so many seconds after the request.
    late: Option<(u16, u64)>,
}

impl Reaction {
    fn now(said: Said) -> Self {
        Self {
            at: None,
            said,
            late: None,
        }
    }

    fn at(at: Timestamp, said: Said) -> Self {
        Self {
            at: Some(at),
            said,
            late: None,
        }
    }
}

fn answer(status: u16, asked: Option<u64>) -> TransportResponse {
    let mut headers = HeaderMap::new();
    if let Some(asked) = asked {
        headers.insert("retry-after", asked.into());
    }
    TransportResponse {
        status,
        headers,
        body: Vec::new(),
        remote_address: None,
    }
}

fn result(said: Said) -> Result<TransportResponse, TransportError> {
    match said {
        Said::Status(status, asked) => Ok(answer(status, asked)),
        Said::TimedOut => Err(TransportError::TimedOut),
        Said::Rejected => Err(TransportError::Socket("connection refused".to_owned())),
        Said::Skipped { .. } => unreachable!("nobody says that"),
    }
}

#[async_trait::async_trait]
impl Responder for World {
    async fn respond(
        &self,
        request: &TransportRequest,
    ) -> Result<TransportResponse, TransportError> {
        self.tick();
        if request.headers["aeg-event-type"] != "Notification" {
            // The farewell to a deleted subscription.
            return result(Said::Status(200, None));
        }
        let ReceiveRequest { said, late, told } = self.scene().receive(request);
        if let Some(told) = told {
            // The receivers outlive the appliance, and so does whoever tells.
            let _ = told.await;
            self.tick();
        }
        self.scene().late_plan = late;
        result(said)
    }

    /// Asked right after the time-out, before anybody else has a turn.
    fn late_response(&self, _request: &TransportRequest) -> Option<PendingResponse> {
        let mut scene = self.scene();
        let plan = scene.late_plan.take()?;
        let (publish_notices, told) = oneshot::channel();
        scene.next_number += 1;
        let number = scene.next_number;
        scene.late.insert(
            number,
            LateWaiting {
                plan,
                publish_notices,
            },
        );
        Some(PendingResponse::new(async { told.await.ok() }))
    }
}
