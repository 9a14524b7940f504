//! The bodies of the fuzz targets. They live with the tests, which run them too; here they are only named.

#[path = "../../engine/tests/it/context_files.rs"]
pub mod context_files;
#[path = "../../engine/tests/it/decoders.rs"]
pub mod decoders;
#[path = "../../engine/tests/it/irmin_files.rs"]
#[allow(dead_code)]
pub mod irmin_files;
#[path = "../../engine/tests/it/listed.rs"]
mod listed;
#[path = "../../engine/tests/it/log_files.rs"]
#[allow(dead_code)]
pub mod log_files;
#[path = "../../engine/tests/it/operations.rs"]
pub mod operations;
#[path = "../../engine/tests/it/proof_bytes.rs"]
pub mod proof_bytes;
#[path = "../../explore/src/query.rs"]
#[allow(dead_code)]
pub mod query;
#[path = "../../explore/tests/it/query_bytes.rs"]
pub mod query_bytes;
#[path = "../../explore/tests/it/request_bytes.rs"]
pub mod request_bytes;
#[path = "../../engine/tests/it/store_files.rs"]
pub mod store_files;
#[path = "../../sight/tests/it/trace_bytes.rs"]
pub mod sight_trace_bytes;
#[path = "../../engine/tests/it/trace_bytes.rs"]
#[allow(dead_code)]
pub mod trace_bytes;

#[path = "../../engine/tests/it/context_machine"]
#[allow(dead_code)]
mod context_machine {
    pub mod pair;
    pub mod step;
    mod world;

    pub use world::run;
}
#[path = "../../engine/tests/it/context_story.rs"]
#[allow(dead_code)]
mod context_story;
#[path = "../../engine/tests/it/model"]
#[allow(dead_code)]
mod model {
    pub mod context;
    pub mod table;
}
#[path = "../../engine/tests/it/random.rs"]
#[allow(dead_code)]
mod random;
#[path = "../../engine/tests/it/setup.rs"]
#[allow(dead_code)]
mod setup;
#[path = "../../engine/tests/it/story.rs"]
#[allow(dead_code)]
mod story;
#[path = "../../engine/tests/it/table_machine"]
#[allow(dead_code)]
mod table_machine {
    pub mod step;
    mod world;

    pub use world::run;
}
#[path = "../../explore/tests/it/stores.rs"]
#[allow(clippy::unwrap_used)]
mod stores;
