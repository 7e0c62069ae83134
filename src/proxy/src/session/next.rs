//! Waiting for a client's next command.

use super::{Client, Context, Ended, budget::UsedUp, refuse, rest};
use chain::{Error, Session, Stack, error::LastWords};
use std::{future::poll_fn, io, pin::Pin, task::Poll};
use tower::Service;
use wire::{
    compress::CompressError,
    err::{ErrPacket, codes},
    packet::{Message, PacketError},
};

/// Waits for a command. A session outside a transaction ends here when the proxy drains, and any
/// session when a server closes the connection that the session's state is on.
pub(super) async fn next_command(
    client: &mut Client,
    context: &Context,
    session: &Session,
    stack: &mut Stack,
    drained: Pin<&mut impl Future<Output = ()>>,
) -> Result<Option<Message>, Ended> {
    let may_end = !session.in_transaction();
    let message = tokio::select! {
        biased;
        message = client.message(context.max_command) => message,
        error = failure(stack) => {
            if let Some(LastWords(bytes)) = error.cause() {
                // The session ends all the same, whether or not they arrive.
                let _ = client.write(bytes.clone()).await;
            }
            return Err(Ended::Backend(error));
        }
        () = drained, if may_end => return Err(Ended::Drained),
    };
    match message {
        Ok(Some(message)) if message.seq != 0 => {
            let refusal =
                ErrPacket::new(codes::ER_NET_PACKETS_OUT_OF_ORDER, "Got packets out of order");
            // Servers begin anew with it, whatever the id was.
            let _ = refuse(client, 0, &refusal).await;
            Err(Ended::Client(Error::client("a command with a wrong sequence id")))
        }
        Ok(message) => Ok(message),
        Err(error) => {
            if is_out_of_order(&error) {
                let text = "Got packets out of order";
                let refusal = ErrPacket::new(codes::ER_NET_PACKETS_OUT_OF_ORDER, text);
                let _ = refuse(client, 0, &refusal).await;
            } else if too_large(&error) {
                let _ = refuse(client, 1, &packet_too_large()).await;
            }
            Err(Ended::Client(error))
        }
    }
}

/// Whether compressed frames came out of order, which a server tells its client.
fn is_out_of_order(error: &Error) -> bool {
    let frame = error.cause::<io::Error>().and_then(io::Error::get_ref);
    let frame = frame.and_then(|frame| frame.downcast_ref());
    matches!(frame, Some(CompressError::OutOfOrder { .. }))
}

/// Whether an error of reading says that there is more than may be kept.
pub(super) fn too_large(error: &Error) -> bool {
    matches!(error.cause(), Some(PacketError::TooLarge { .. })) || error.cause::<UsedUp>().is_some()
}

pub(super) fn packet_too_large() -> ErrPacket {
    let text = "Got a packet bigger than 'max_allowed_packet' bytes";
    ErrPacket::new(codes::ER_NET_PACKET_TOO_LARGE, text)
}

/// Waits until the stack is beyond use.
async fn failure(stack: &mut Stack) -> Error {
    poll_fn(|cx| match rest::resting(|| stack.poll_ready(cx)) {
        Poll::Ready(Err(error)) => Poll::Ready(error),
        // Whatever would change this has the waker.
        Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
    })
    .await
}
