//! Users, sessions, and guesses at passwords.

use super::*;

pub(super) async fn the_first_user_claims_and_sessions_end(f: Fixture) {
    let accounts = &f.store.accounts;
    assert_eq!(accounts.is_claimed().await, Ok(false));
    assert_eq!(
        accounts
            .claim(
                "Ada".to_owned(),
                "hash".to_owned(),
                Caller::command_line(at(0))
            )
            .await,
        Ok(Some(UserId(1)))
    );
    assert_eq!(
        accounts
            .claim(
                "Eve".to_owned(),
                "hash".to_owned(),
                Caller::command_line(at(0))
            )
            .await,
        Ok(None)
    );
    assert_eq!(accounts.is_claimed().await, Ok(true));
    let ada = accounts
        .find("ada".to_owned())
        .await
        .expect("an answer")
        .expect("her account");
    assert_eq!(ada.name, "Ada");
    assert_eq!(accounts.find("eve".to_owned()).await, Ok(None));
    let session = SessionRecord {
        id: "id".to_owned(),
        record: "{}".to_owned(),
        user: Some(ada.id),
        started_at: at(0),
        used_at: at(0),
        expires_at: at(10),
        address: None,
        browser: None,
    };
    accounts.add_session(session).await.expect("kept");
    assert_eq!(
        accounts.session("id".to_owned(), at(9)).await,
        Ok(Some("{}".to_owned()))
    );
    assert_eq!(accounts.session("id".to_owned(), at(10)).await, Ok(None));
    assert_eq!(
        f.store.accounts.delete_expired_sessions(at(10)).await,
        Ok(1)
    );
}

fn account(name: &str) -> Guessers {
    Guessers {
        account: Some(name.to_owned()),
        ..Guessers::default()
    }
}

pub(super) async fn failures_to_sign_in_are_counted_bounded_and_forgotten(f: Fixture) {
    let accounts = &f.store.accounts;
    let fail = async |guesser: &str, now| {
        let wait = accounts.begin_login_attempt(account(guesser), at(now));
        wait.await.expect("an answer")
    };
    for _ in 0..5 {
        assert_eq!(fail("ann", 0).await, None);
    }
    let second = Some(Duration::from_secs(1));
    assert_eq!(fail("ann", 0).await, second);
    assert_eq!(fail("bob", 0).await, None);
    let known = accounts.clear_login_failures(
        Guessers {
            networks: vec!["ann".to_owned()],
            ..account("bob")
        },
        at(0),
    );
    known.await.expect("taken back");
    assert_eq!(fail("ann", 0).await, None, "the last failure was none");
    assert_eq!(fail("ann", 0).await, second);
    // The newest ten thousand are remembered.
    let many = Guessers {
        networks: (0..9_999).map(|number| number.to_string()).collect(),
        ..Guessers::default()
    };
    assert_eq!(accounts.begin_login_attempt(many, at(500)).await, Ok(None));
    assert_eq!(fail("ann", 500).await, Some(Duration::from_millis(500)));
    assert_eq!(fail("late", 500).await, None);
    assert_eq!(fail("ann", 500).await, None, "ann's were the oldest");
    let forget = async |until| f.store.accounts.delete_login_failures(at(until)).await;
    assert_eq!(forget(499).await, Ok(0));
    assert_eq!(forget(500).await, Ok(10_000));
    let there = || Guessers {
        account_there: Some("ann there".to_owned()),
        ..account("ann")
    };
    let signed_in = accounts.clear_login_failures(there(), at(0));
    signed_in.await.expect("stored");
    for _ in 0..9 {
        fail("ann", 600).await;
    }
    let from_there = || accounts.begin_login_attempt(there(), at(600));
    assert_eq!(from_there().await, Ok(None), "known there");
    for (guessers, is_known) in [(there(), true), (account("ann"), false)] {
        assert_eq!(accounts.is_known_there(guessers).await, Ok(is_known));
    }
    let forget = async |until| f.store.accounts.delete_known_networks(at(until)).await;
    assert_eq!(forget(0).await, Ok(1));
    assert_eq!(accounts.is_known_there(there()).await, Ok(false));
    assert_eq!(from_there().await, Ok(Some(Duration::from_secs(1))));
}

#[tokio::test]
async fn failures_to_sign_in_outlive_the_program() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data_dir = data_dir(&dir);
    for expected in [None, Some(Duration::from_secs(1))] {
        let store = opened(data_dir.clone());
        let guess = || store.accounts.begin_login_attempt(account("ann"), at(0));
        assert_eq!(guess().await, Ok(expected));
        for _ in 0..4 {
            guess().await.expect("an answer");
        }
    }
}
