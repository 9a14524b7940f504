//! What the commands run: real chains and generated loads.

pub mod blocks;
pub mod cardano;
pub mod context_bench;
mod csv;
pub mod dump;
pub mod tezos_json;
pub mod utxo;
pub mod vectors;
