//! What may go from thread to thread, and what threads may share: a bound that is lost does not compile.

use varvite::context::{CommitHash, Options, Reader, Store, Tree, TreeHash};
use varvite::disk::{memory::MemoryDisk, os::OsDisk, sim::SimDisk};
use varvite::proof::{Proof, Recording};
use varvite::{
    Batch, Cursor, Error, Follower, Keys, Loader, MergeOperator, Range, Session, SessionOptions,
    Snapshot, Table, TableOptions, Tables, Transaction, Value, ValueWriter, Values, View, Views,
};

fn moves<T: Send + 'static>() {}
fn is_shared<T: Send + Sync + 'static>() {}
fn is_handed_out<T: Clone + Send + Sync + 'static>() {}

#[test]
fn handles_go_where_hosts_need_them() {
    is_handed_out::<Tables>();
    is_handed_out::<View>();
    is_handed_out::<Views>();
    is_handed_out::<Tree>();
    is_handed_out::<Batch>();
    is_handed_out::<Value>();
    is_handed_out::<CommitHash>();
    is_handed_out::<TreeHash>();
    is_handed_out::<Reader>();
    is_handed_out::<SessionOptions>();
    is_handed_out::<TableOptions>();
    is_handed_out::<Options>();
    is_handed_out::<MergeOperator>();
    is_shared::<Session>();
    is_shared::<Table>();
    is_shared::<Store>();
    is_shared::<Snapshot>();
    is_shared::<Follower>();
    is_shared::<Values>();
    is_shared::<Proof>();
    is_shared::<Error>();
    is_shared::<MemoryDisk>();
    is_shared::<OsDisk>();
    is_shared::<SimDisk>();
    moves::<Range>();
    moves::<Keys>();
    moves::<Cursor>();
    moves::<Transaction>();
    moves::<ValueWriter>();
    moves::<Loader>();
    moves::<Recording>();
}
