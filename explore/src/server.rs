//! The server: connections that cannot hold it up, and answers made on threads of their own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};
use varvite::{Error, Result};

use crate::api::State;
use crate::routes;
use crate::sources::{self, Source, lock};

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once; others are told to come back.
    pub connections: usize,
    /// Time for the head of a request.
    pub head: Duration,
    /// Time in which neither a byte comes nor one goes. Whoever has no answer after five sixths of it is told so.
    pub idle: Duration,
    /// Time in which a connection takes requests. The one that it has then is answered, in as much time again.
    pub lifetime: Duration,
    /// Answers that are made at once.
    pub workers: usize,
    /// Requests that wait for one of these.
    pub waiting: usize,
    /// Time that one answer may take to make, where it can stop in the middle.
    pub work: Duration,
    /// Time after which a store that nobody asks for is closed; of which `/metrics` was asked, ten times that.
    pub rest: Duration,
    /// Bytes of long answers that wait for their clients, all together: others are told to come back. One that is longer
    /// goes out where no other waits.
    pub outgoing_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 64,
            head: Duration::from_secs(10),
            idle: Duration::from_mins(1),
            lifetime: Duration::from_mins(10),
            workers: 2,
            waiting: 64,
            work: Duration::from_secs(8),
            rest: sources::REST,
            outgoing_bytes: 128 << 20,
        }
    }
}

/// Bytes of the head of a request, and of what is not yet sent.
const BUFFER_BYTES: usize = 16 << 10;

/// Between two looks whether to stop.
const LOOK: Duration = Duration::from_millis(200);

/// The address that `text` gives: an address of loopback and a port.
///
/// # Errors
///
/// `Invalid` when it is no address, or one that others can reach.
pub fn check_address(text: &str) -> Result<SocketAddr> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse::<u16>().ok());
    let parsed = local
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .or_else(|| text.parse().ok());
    let Some(address) = parsed else {
        return Err(Error::invalid(format!(
            "\"{text}\" is no address: give one as 127.0.0.1:7878 or [::1]:7878"
        )));
    };
    if !is_loopback(address.ip()) {
        return Err(Error::invalid(format!(
            "{address} can be reached by other machines, and the pages show all that is in the store to whoever asks: \
             listen on 127.0.0.1 or [::1], and reach it from elsewhere through a tunnel, as by ssh -L"
        )));
    }
    Ok(address)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Stores being shown.
pub struct Explorer {
    runtime: tokio::runtime::Runtime,
    listener: TcpListener,
    address: SocketAddr,
    state: Arc<State>,
    limits: Limits,
}

impl std::fmt::Debug for Explorer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Explorer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Explorer {
    /// Shows `sources`, and what `traces` recorded, at `address`; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// `Invalid` for an address that is not of loopback, `Io` when it is taken.
    pub fn bind(
        address: SocketAddr,
        sources: Vec<Source>,
        traces: Vec<PathBuf>,
        limits: Limits,
    ) -> Result<Explorer> {
        let address = check_address(&address.to_string())?;
        let failed = |error| Error::io("listen on", &address.to_string(), error);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(limits.workers.max(1))
            .build()
            .map_err(failed)?;
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let state = Arc::new(State::new(sources, traces, address, limits));
        Ok(Explorer { runtime, listener, address, state, limits })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a browser is given.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// What a client is answered that sends `bytes` and then no more, without a connection: for who tests what this
    /// does with requests, or brings them by another way.
    ///
    /// # Panics
    ///
    /// Within a runtime of tokio, as it waits on its own: call it from a thread for such work.
    pub fn answered(&self, bytes: &[u8]) -> Vec<u8> {
        let answer = Arc::new(Mutex::default());
        let sent = Sent { bytes: bytes.to_vec(), at: 0, answer: Arc::clone(&answer) };
        self.runtime.block_on(serve_one(sent, Arc::clone(&self.state), self.limits));
        std::mem::take(&mut *lock(&answer))
    }

    /// Serves until `stops` says so, which is asked a few times a second. A store that is being opened then is closed when it
    /// is open: until that a thread has files of it.
    ///
    /// # Errors
    ///
    /// `Io` when no connection can be taken any more.
    pub fn serve(self, stops: impl Fn() -> bool) -> Result<()> {
        let Explorer { runtime, listener, address, state, limits } = self;
        let places = Arc::new(Semaphore::new(limits.connections));
        // Those beyond are closed at once: who is told so holds a connection for a moment, too.
        let refusals = Arc::new(Semaphore::new(limits.connections));
        let served = runtime.block_on(async move {
            while !stops() {
                for store in &state.stores {
                    store.rest();
                }
                state.sharings.rest();
                state.traces.rest();
                let Ok(accepted) = tokio::time::timeout(LOOK, listener.accept()).await else {
                    continue;
                };
                let stream = match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) if is_passing(&error) => {
                        // As without a descriptor: others are given back meanwhile.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                    Err(error) => {
                        return Err(Error::io("take connections of", &address.to_string(), error));
                    }
                };
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    if let Ok(refusal) = Arc::clone(&refusals).try_acquire_owned() {
                        tokio::spawn(async move {
                            turn_away(stream).await;
                            drop(refusal);
                        });
                    }
                    continue;
                };
                let state = Arc::clone(&state);
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    serve_one(stream, state, limits).await;
                    drop(place);
                });
            }
            Ok(())
        });
        // An answer that is still made has nobody to go to.
        runtime.shutdown_background();
        served
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, OutOfMemory, WouldBlock};
    let kinds = [ConnectionAborted, ConnectionReset, Interrupted, OutOfMemory, WouldBlock];
    // Too many open files, of the process or of the system.
    kinds.contains(&error.kind()) || matches!(error.raw_os_error(), Some(23 | 24))
}

/// Says that there are too many, to one who may not listen.
async fn turn_away(mut stream: TcpStream) {
    const WHY: &str = "too many connections: close some of them\n";
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\ncontent-type: text/plain\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{WHY}",
        WHY.len()
    );
    if tokio::time::timeout(LOOK, stream.writable()).await.is_ok() {
        // A new connection has room for so little, if it has any.
        let _ = stream.try_write(answer.as_bytes());
    }
    // Closed while bytes of the request are unread, the connection would be reset, and the answer lost with it.
    let drain = async {
        std::future::poll_fn(|context| Pin::new(&mut stream).poll_shutdown(context)).await?;
        let mut bytes = [0; 1 << 10];
        loop {
            stream.readable().await?;
            match stream.try_read(&mut bytes) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    };
    let _ = tokio::time::timeout(LOOK, drain).await;
}

/// Where requests come from, and answers go.
trait Stream: AsyncRead + AsyncWrite + Unpin {
    /// Whether one that has sent all may still be answered.
    const HALF_CLOSES: bool;
}

impl Stream for TcpStream {
    const HALF_CLOSES: bool = false;
}

async fn serve_one<S: Stream>(stream: S, state: Arc<State>, limits: Limits) {
    let stream =
        Watched { stream, limit: limits.idle, timer: Box::pin(tokio::time::sleep(limits.idle)) };
    let service = TowerToHyperService::new(routes::routes(state));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(64)
        .half_close(S::HALF_CLOSES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // However it ends, there is nobody to be told.
    if tokio::time::timeout(limits.lifetime, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(limits.lifetime, connection).await;
    }
}

/// A connection that ends when for a while neither a byte comes nor one goes.
struct Watched<S> {
    stream: S,
    limit: Duration,
    timer: Pin<Box<Sleep>>,
}

impl<S> Watched<S> {
    /// Begins anew to wait.
    fn moved(&mut self) {
        self.timer.as_mut().reset(Instant::now() + self.limit);
    }

    fn waits<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Pending => self.waits(context),
            ready @ Poll::Ready(_) => {
                self.moved();
                ready
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Pending => self.waits(context),
            ready @ Poll::Ready(_) => {
                self.moved();
                ready
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A client that has sent all it will, and takes every answer.
struct Sent {
    bytes: Vec<u8>,
    at: usize,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Stream for Sent {
    const HALF_CLOSES: bool = true;
}

impl AsyncRead for Sent {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let end = self.bytes.len().min(self.at.saturating_add(buffer.remaining()));
        buffer.put_slice(&self.bytes[self.at..end]);
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Sent {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        lock(&self.answer).extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_taken() {
        for good in
            ["127.0.0.1:0", "127.8.9.1:80", "[::1]:7878", "localhost:7878", "[::ffff:127.0.0.1]:1"]
        {
            assert!(check_address(good).is_ok(), "{good}");
        }
        for bad in [
            "0.0.0.0:80",
            "[::]:80",
            "192.168.1.5:80",
            "example.org:80",
            "127.0.0.1",
            "",
            "[::ffff:8.8.8.8]:1",
        ] {
            let error = check_address(bad).expect_err(bad);
            assert_eq!(error.kind(), varvite::Kind::Invalid);
        }
        let said = check_address("0.0.0.0:80").expect_err("open to all").to_string();
        assert!(said.contains("other machines") && said.contains("ssh -L"), "{said}");
    }
}
