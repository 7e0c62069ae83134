//! A reply's way to the client.

use super::{
    Client,
    attend::{Gone, Patience},
};
use crate::buffer::{Frames, write_frames};
use bytes::Bytes;
use chain::{Body, End, Error, Frame, Upload};
use futures_util::FutureExt;
use wire::upload::UploadScanner;

/// How a delivery went.
pub(super) enum Delivery {
    /// All of it has gone out.
    Ended(End),
    /// The reply broke before its first byte had gone out: an ERR packet can take its place.
    NotBegun(Error),
    /// The reply broke in the middle; nothing that could follow would be understood.
    Begun(Error),
    /// The client is not there any more.
    ClientGone(Error),
}

/// Frames are gathered up to this many bytes before they are written.
const GATHER: usize = 64 * 1024;

/// Writes the reply frame by frame, never more ahead of the client than its socket takes, with one
/// write for all that has arrived.
pub(super) async fn deliver(client: &mut Client, mut body: Body, patience: Patience) -> Delivery {
    let mut pending = Frames::new();
    let mut begun = false;
    client.sent = 0;
    loop {
        let next = match pending.is_empty() {
            true => match client.attended(patience, body.frame()).await {
                Some(frame) => Some(frame),
                None => return Delivery::ClientGone(Error::client(Gone)),
            },
            false => body.frame().now_or_never(),
        };
        match next {
            Some(Some(Ok(Frame::Packets(packets)))) => {
                client.sent += packets.len() as u64;
                pending.push(packets);
                if pending.iter().map(Bytes::len).sum::<usize>() < GATHER {
                    continue;
                }
            }
            Some(Some(Ok(Frame::End(end)))) => {
                client.sent += end.packet.len() as u64;
                if !end.packet.is_empty() {
                    pending.push(end.packet.clone());
                }
                return match write_frames(&mut client.io, &mut pending).await {
                    Ok(()) => Delivery::Ended(end),
                    Err(error) => Delivery::ClientGone(Error::client(error)),
                };
            }
            Some(Some(Ok(Frame::Upload(upload)))) => {
                pending.push(upload.request.clone());
                if let Err(error) = write_frames(&mut client.io, &mut pending).await {
                    return Delivery::ClientGone(Error::client(error));
                }
                begun = true;
                if let Err(error) = pass_up(client, &mut body, upload).await {
                    return Delivery::ClientGone(error);
                }
                continue;
            }
            Some(Some(Err(error))) => return broken(begun, error),
            Some(None) => return broken(begun, Error::filter("the reply stopped before its end")),
            // Nothing more has arrived.
            None => {}
        }
        begun = true;
        if let Err(error) = write_frames(&mut client.io, &mut pending).await {
            return Delivery::ClientGone(Error::client(error));
        }
    }
}

fn broken(begun: bool, error: Error) -> Delivery {
    if begun { Delivery::Begun(error) } else { Delivery::NotBegun(error) }
}

/// Passes the client's file on, up to the empty packet that ends it. The body has to be polled for
/// the connection to take the data; it gives no frame before it has all.
async fn pass_up(client: &mut Client, body: &mut Body, upload: Upload) -> Result<(), Error> {
    let mut scanner = UploadScanner::default();
    loop {
        if client.read.is_empty() && client.fill().await? == 0 {
            return Err(Error::client("the client closed in the middle of a file"));
        }
        let (chunk, ended) = match scanner.scan(&client.read) {
            Some(end) => (client.read.split_to(end).freeze(), true),
            None => (std::mem::take(&mut client.read).freeze(), false),
        };
        tokio::select! {
            biased;
            sent = upload.data.send(chunk) => {
                if sent.is_err() || ended {
                    // Closed from the other side: the body says why.
                    return Ok(());
                }
            }
            frame = body.frame() => {
                let early = frame.and_then(Result::err);
                let odd = || Error::backend("the server answered before it had the file");
                return Err(early.unwrap_or_else(odd));
            }
        }
    }
}
