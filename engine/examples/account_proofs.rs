//! Accounts whose balances another program checks without having them.
//!
//! The ledger pays, commits each block to its store, and gives the hash of its tree and a proof of the payment. A second
//! program, which is this one started anew with nothing but a hash and bytes, does the payment again on the proof and
//! learns the hash after it. It has no store, and trusts nobody but the hash.
//!
//! Run it with `cargo run --example account_proofs`.

use std::io::{Read as _, Write as _};
use std::process::{Command, ExitCode, Stdio};

use varvite::context::{CommitInfo, Configuration, Options, Store, Tree, TreeHash};
use varvite::proof::{self, Encoding, Kinded, Proof};
use varvite::{Error, Result};

const RULES: Configuration = Configuration::TEZOS;

/// The rule of the ledger, which both programs know.
fn pay(tree: &mut Tree, from: &str, to: &str, amount: u64) -> Result<bool> {
    let balance = |tree: &mut Tree, name: &str| -> Result<u64> {
        let found = tree.find(&["accounts", name])?;
        let bytes = found.as_deref().unwrap_or(&[0; 8]).try_into();
        bytes.map(u64::from_le_bytes).map_err(|_| Error::invalid("a balance has 8 bytes"))
    };
    let (payer, payee) = (balance(tree, from)?, balance(tree, to)?);
    let Some(left) = payer.checked_sub(amount) else { return Ok(false) };
    tree.add(&["accounts", from], &left.to_le_bytes())?;
    tree.add(&["accounts", to], &(payee + amount).to_le_bytes())?;
    Ok(true)
}

/// A payment as the second program gets it: who pays whom, how much, and the hash of the tree.
struct Claim {
    from: String,
    to: String,
    amount: u64,
    root: TreeHash,
}

impl Claim {
    fn of_arguments(arguments: &[String]) -> Option<Claim> {
        let [from, to, amount, root] = arguments else { return None };
        let root = root.parse().ok()?;
        Some(Claim { from: from.clone(), to: to.clone(), amount: amount.parse().ok()?, root })
    }

    /// The second program: it has this and a proof, and says the hash after the payment.
    fn check(&self, bytes: &[u8]) -> Result<String> {
        let proof = Proof::decode(bytes, Encoding::V2, RULES)?;
        let root = Kinded::directory(self.root);
        let pay = |tree: &mut Tree| pay(tree, &self.from, &self.to, self.amount);
        let is_paid = proof.verify(RULES, root, pay)?;
        if !is_paid {
            return Err(Error::invalid("the payer has too little"));
        }
        Ok(proof.after.hash.to_string())
    }
}

/// Starts this program again, as the one that checks; what it said, if it agrees.
fn ask_the_other(root: &TreeHash, payment: (&str, &str, u64), bytes: &[u8]) -> Option<String> {
    let (from, to, amount) = payment;
    let program = std::env::current_exe().expect("this program has a path");
    let mut other = Command::new(program)
        .args([from, to, &amount.to_string(), &root.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    other.stdin.take().expect("it is piped").write_all(bytes).expect("it reads");
    let output = other.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(said)
}

/// The first program: it has the accounts.
fn run_the_ledger() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("ledger");
    let mut store = Store::open_or_create(&path, Options::default())?;
    let mut ledger = store.empty_tree();
    for number in 0..10_000_u64 {
        ledger.add(&["accounts", &format!("account {number}")], &number.to_le_bytes())?;
    }
    let genesis = store.commit(&mut ledger, &CommitInfo::new(&[], 0, "ledger", "genesis"))?;
    store.set_branch(b"main", &genesis)?;

    // A block: the payment is done for the proof, and then in the ledger.
    let mut ledger = store.checkout(&genesis)?;
    let payment = ("account 7000", "account 1", 500);
    let before = ledger.hash()?;
    let (recording, is_paid) =
        proof::record(&ledger, |tree| pay(tree, payment.0, payment.1, payment.2))?;
    assert!(is_paid);
    let bytes = recording.tree_proof()?.encode(Encoding::V2)?;
    pay(&mut ledger, payment.0, payment.1, payment.2)?;
    let block =
        store.commit(&mut ledger, &CommitInfo::new(&[genesis], 1, "ledger", "a payment"))?;
    store.set_branch(b"main", &block)?;
    store.close()?;

    // What the other program learns is what the store has, also when it is opened again.
    let store = Store::open_or_create(&path, Options::default())?;
    let head = store.branch(b"main").expect("it was set");
    let after = store.checkout(&head)?.hash()?.to_string();

    assert_eq!(ask_the_other(&before, payment, &bytes).as_deref(), Some(&*after));
    println!(
        "a payment among 10,000 accounts, checked elsewhere with {} bytes: {after}",
        bytes.len()
    );

    // Another sum, another root or a changed proof: it does not agree.
    assert_eq!(ask_the_other(&before, (payment.0, payment.1, 501), &bytes), None);
    assert_eq!(ask_the_other(&TreeHash::new([7; 32]), payment, &bytes), None);
    let mut changed = bytes;
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    assert_eq!(ask_the_other(&before, payment, &changed), None);
    println!("another sum, another root and a changed proof are refused");
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = if arguments.is_empty() {
        run_the_ledger()
    } else {
        let mut bytes = Vec::new();
        let claim = Claim::of_arguments(&arguments).ok_or_else(|| {
            Error::invalid("give payer, payee, amount and hash, and a proof as input")
        });
        let read = std::io::stdin().read_to_end(&mut bytes);
        claim.and_then(|claim| {
            read.map_err(|error| Error::invalid("the input cannot be read").with_source(error))?;
            println!("{}", claim.check(&bytes)?);
            Ok(())
        })
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
