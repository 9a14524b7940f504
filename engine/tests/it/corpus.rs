//! What the fuzz targets begin with: the seeds of the ordinary tests. `VARVITE_CORPUS` names the folder that
//! they are written to, one folder a target in it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::random::Random;
use crate::{context_files, golden, irmin_files, log_files, proof_bytes, store_files, trace_bytes};

/// Targets whose bytes are steps or accesses: any will do.
const STEPS: [&str; 3] = ["operations", "context_operations", "proof_function"];

fn seeds() -> BTreeMap<&'static str, Vec<Vec<u8>>> {
    let mut seeds: BTreeMap<_, Vec<Vec<u8>>> = BTreeMap::new();
    let files = store_files::tests::seeds().into_iter().chain(log_files::tests::seeds());
    for (name, seed) in golden::seeds().into_iter().chain(files) {
        seeds.entry(name).or_default().push(seed);
    }
    for (name, _) in context_files::BODIES {
        seeds.insert(name, context_files::tests::seeds(name));
    }
    for (name, file) in irmin_files::KINDS {
        seeds.insert(name, vec![irmin_files::seed(name, file)]);
    }
    seeds.insert("proof", proof_bytes::tests::seeds());
    seeds.insert("trace", vec![trace_bytes::recorded()]);
    seeds
        .insert("trace_sight", vec![trace_bytes::recorded(), trace_bytes::recorded_transactions()]);
    seeds.insert(
        "request",
        vec![b"GET /api/tree?store=0&path=a/%ff HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".to_vec()],
    );
    seeds.insert("query", vec![b"store=0&path=a/%ff%2f/b&limit=10&traces=0,1".to_vec()]);
    let mut random = Random::new(5);
    for name in STEPS {
        seeds.insert(name, (1..20).map(|number| random.bytes(number * 8)).collect());
    }
    seeds
}

#[test]
fn every_fuzz_target_has_a_seed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seeds = seeds();
    for target in std::fs::read_dir(root.join("fuzz/fuzz_targets")).unwrap() {
        let path = target.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let seeds = seeds.remove(name).unwrap_or_else(|| panic!("{name} has no seed"));
        assert!(!seeds.is_empty(), "{name}");
        let Some(corpus) = std::env::var_os("VARVITE_CORPUS") else { continue };
        let folder = root.join(corpus).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed).unwrap();
        }
    }
    assert!(seeds.is_empty(), "seeds of no target: {:?}", seeds.keys());
}
