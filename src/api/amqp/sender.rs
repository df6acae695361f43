//! Links over which clients send to an entity.

use async_trait::async_trait;
use futures_util::future::FutureExt;

use crate::api::amqp::container::{IncomingLink, Storing};
use crate::broker::MessageSender;
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::message::Message;

#[async_trait]
impl IncomingLink for MessageSender {
    fn message_bytes_max(&self) -> u64 {
        self.bytes_max()
    }

    async fn send(&self, messages: Vec<Message>) -> Result<Storing, AmqpError> {
        let storing = self.begin_to_send(messages).await?;
        Ok(async { Ok(storing.await.map(drop)?) }.boxed())
    }
}
