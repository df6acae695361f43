//! Answers to what clients ask `$management` of an entity.

use bytes::Bytes;

use crate::api::amqp::container::{
    KnownEntity, Transaction, TransactionSend, TransactionSettlement,
};
use crate::api::amqp::receiver::{check_locks, lock_of, renew_session, settle, uuid_of};
use crate::api::amqp::sessions::HeldSessions;
use crate::base::stint::Stint;
use crate::broker::{
    MessageReceiver, MessageSender, MessagingEntity, MessagingError, NotAllowed, PromisedNumber,
};
use crate::model::audit::{Actor, Caller};
use crate::model::session::HeldSession;
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::condition::{MESSAGE_SIZE_EXCEEDED, NOT_ALLOWED};
use crate::wire::amqp::management::{EntityOperation, ManagementReply, NamedSession};
use crate::wire::amqp::message::Message;

/// Does what a client asks of an entity. That the client may was checked.
pub(super) async fn answer(
    entity: MessagingEntity,
    by: &Caller,
    sessions: &HeldSessions,
    asked: EntityOperation,
) -> Result<ManagementReply, AmqpError> {
    Ok(match asked {
        EntityOperation::Schedule(messages) => {
            ManagementReply::Scheduled(scheduler(&entity, &messages)?.schedule(messages).await?)
        }
        EntityOperation::CancelScheduled(numbers) => {
            entity.sender()?.cancel_scheduled(numbers).await?;
            ManagementReply::Done
        }
        EntityOperation::Peek {
            from,
            count,
            session,
            omit_body,
        } => {
            let receiver = entity.receiver()?;
            let named = sessions.named(receiver.subscription.id, session);
            // Without one, all of them are walked.
            let session = named.filter(|_| receiver.has_sessions());
            ManagementReply::Peeked(peek(&receiver, from, count, session, omit_body).await?)
        }
        EntityOperation::ReceiveNumbers {
            numbers,
            lock,
            session,
        } => {
            let receiver = entity.receiver()?;
            let held = held(&receiver, sessions, session)?;
            let received = receiver.receive_deferred(by, numbers, held.as_ref());
            let received = if lock {
                received.await?
            } else {
                receiver.complete(by, received.await?).await
            };
            let mut stint = Stint::default();
            let mut messages = Vec::with_capacity(received.len());
            for each in &received {
                let message = Bytes::from(receiver.encode(each, lock));
                stint.did(message.len()).await;
                messages.push((uuid_of(each.token), message));
            }
            ManagementReply::Received(messages)
        }
        EntityOperation::Settle { tokens, outcome } => {
            let locks = tokens.into_iter().map(|token| (token, outcome.clone()));
            let settled = settle(&entity.receiver()?, by, locks.collect()).await;
            settled.into_iter().collect::<Result<(), _>>()?;
            ManagementReply::Done
        }
        EntityOperation::RenewLocks(tokens) => {
            let locks = tokens.into_iter().map(lock_of).collect();
            ManagementReply::LocksRenewed(entity.receiver()?.renew_locks(by, locks).await?)
        }
        EntityOperation::DeleteBatch {
            count,
            enqueued_before,
            session,
        } => {
            let receiver = entity.receiver()?;
            let held = held(&receiver, sessions, session)?;
            let deleted = receiver.delete_batch(by, count, enqueued_before, held.as_ref());
            ManagementReply::Deleted(deleted.await?)
        }
        EntityOperation::RenewSession(name) => {
            let renewed = renew_session(&entity.receiver()?, sessions, &name).await?;
            ManagementReply::SessionRenewed(renewed.until)
        }
        EntityOperation::SessionState(name) => {
            let receiver = entity.receiver()?;
            let held = sessions.held(receiver.subscription.id, &name)?;
            ManagementReply::SessionState(receiver.session_state(held).await?.map(Bytes::from))
        }
        EntityOperation::SetSessionState { session, state } => {
            let receiver = entity.receiver()?;
            let held = sessions.held(receiver.subscription.id, &session)?;
            let bytes = state.map(|state| state.to_vec());
            receiver.set_session_state(held, bytes).await?;
            ManagementReply::Done
        }
        EntityOperation::Sessions {
            state_set_since,
            skip,
            top,
        } => {
            let receiver = entity.receiver()?;
            let found = receiver.sessions(state_set_since, skip, top).await;
            let names = found.map_err(MessagingError::from)?;
            let skip = skip + names.len();
            ManagementReply::Sessions { skip, names }
        }
        EntityOperation::AddRule(rule) => {
            entity.receiver()?.add_rule(by, *rule).await?;
            ManagementReply::Done
        }
        EntityOperation::RemoveRule(name) => {
            entity.receiver()?.remove_rule(by, &name).await?;
            ManagementReply::Done
        }
        EntityOperation::Rules { skip, top } => {
            ManagementReply::Rules(entity.receiver()?.rules(skip, top)?)
        }
    })
}

/// Prepares what a request does at the end of its transaction, and its answer. That the client may was checked.
pub(super) async fn prepare(
    found: MessagingEntity,
    entity: &KnownEntity,
    by: &Actor,
    sessions: &HeldSessions,
    asked: EntityOperation,
) -> Result<(Transaction, ManagementReply), AmqpError> {
    let nothing = Transaction::default();
    Ok(match asked {
        EntityOperation::Schedule(messages) => {
            let sender = scheduler(&found, &messages)?;
            let promised = sender.promise_numbers(messages.len()).await?;
            let numbers = promised.iter().map(PromisedNumber::number).collect();
            let send = TransactionSend {
                to: entity.clone(),
                transfer_to: None,
                messages,
                promised,
            };
            let sends = vec![send];
            (
                Transaction { sends, ..nothing },
                ManagementReply::Scheduled(numbers),
            )
        }
        EntityOperation::CancelScheduled(numbers) => {
            found.sender()?.check_scheduled(numbers.clone()).await?;
            let cancels = vec![(entity.clone(), numbers)];
            (Transaction { cancels, ..nothing }, ManagementReply::Done)
        }
        EntityOperation::Settle { tokens, outcome } => {
            let checked = check_locks(&found.receiver()?, tokens.clone()).await;
            checked.into_iter().collect::<Result<(), _>>()?;
            let each = tokens.into_iter().map(|token| TransactionSettlement {
                of: entity.address.clone(),
                token,
                outcome: outcome.clone(),
                by: by.clone(),
                is_settled: true,
            });
            let settles = each.collect();
            (Transaction { settles, ..nothing }, ManagementReply::Done)
        }
        EntityOperation::SetSessionState { session, state } => {
            let held = sessions.held(found.receiver()?.subscription.id, &session)?;
            let states = vec![(entity.address.clone(), held, state)];
            (Transaction { states, ..nothing }, ManagementReply::Done)
        }
        EntityOperation::DeleteBatch { .. }
        | EntityOperation::RenewLocks(_)
        | EntityOperation::Peek { .. }
        | EntityOperation::ReceiveNumbers { .. }
        | EntityOperation::RenewSession(_)
        | EntityOperation::SessionState(_)
        | EntityOperation::Sessions { .. }
        | EntityOperation::AddRule(_)
        | EntityOperation::RemoveRule(_)
        | EntityOperation::Rules { .. } => {
            let problem = "this cannot take part in a transaction; ask for it outside of one";
            return Err(AmqpError::new(NOT_ALLOWED, problem));
        }
    })
}

/// Returns what schedules these messages, if they have no more bytes together than a link takes at once.
fn scheduler(entity: &MessagingEntity, messages: &[Message]) -> Result<MessageSender, AmqpError> {
    let sender = entity.sender()?;
    let (sizes, most) = (messages.iter().map(Message::bytes), sender.bytes_max());
    if sizes.sum::<usize>() as u64 > most {
        let problem = format!("messages that are scheduled together have up to {most} bytes here");
        return Err(AmqpError::new(MESSAGE_SIZE_EXCEEDED, problem));
    }
    Ok(sender)
}

async fn peek(
    receiver: &MessageReceiver,
    from: i64,
    count: usize,
    session: Option<String>,
    omit_body: bool,
) -> Result<Vec<Bytes>, MessagingError> {
    let peeked = receiver.peek(from, count, session).await?;
    let mut stint = Stint::default();
    let mut messages = Vec::with_capacity(peeked.len());
    for each in &peeked {
        let message = Bytes::from(receiver.encode_peeked(each));
        stint.did(message.len()).await;
        messages.push(if omit_body {
            without_body(&message)
        } else {
            message
        });
    }
    Ok(messages)
}

fn without_body(message: &Bytes) -> Bytes {
    let without = Message::split(message).and_then(Message::without_body);
    without.map_or_else(|_| message.clone(), |without| without.to_bytes().into())
}

/// Returns the session that a request names, which the client's connection holds.
fn held(
    receiver: &MessageReceiver,
    sessions: &HeldSessions,
    session: NamedSession,
) -> Result<Option<HeldSession>, MessagingError> {
    if !receiver.has_sessions() {
        return Ok(None);
    }
    let of = receiver.subscription.id;
    let named = sessions.named(of, session);
    let name = named.ok_or(NotAllowed::ReceiveWithoutSession)?;
    sessions.held(of, &name).map(Some)
}
