//! Many requests on one connection without waiting for each answer.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// What one request came to.
pub(crate) type Pending<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// Starts the requests in order and then awaits them in order.
///
/// The driver sends a request when its future is polled first. If one fails
/// there, so without an answer, those behind it are not started: they are left
/// out of what is returned.
pub(crate) async fn in_order<T, E>(mut requests: Vec<Pending<'_, T, E>>) -> Vec<Result<T, E>> {
    let mut answers: Vec<Option<Result<T, E>>> = Vec::new();
    let mut started = false;
    let mut head = 0;
    poll_fn(move |context| {
        if !started {
            started = true;
            for request in &mut requests {
                let answer = match request.as_mut().poll(context) {
                    Poll::Ready(answer) => Some(answer),
                    Poll::Pending => None,
                };
                let failed = matches!(answer, Some(Err(_)));
                answers.push(answer);
                if failed {
                    break;
                }
            }
        }
        // Answers come in the order of the requests, so only the first that is
        // missing can be there.
        while let Some(answer) = answers.get_mut(head) {
            if answer.is_none() {
                match requests[head].as_mut().poll(context) {
                    Poll::Ready(ready) => *answer = Some(ready),
                    Poll::Pending => return Poll::Pending,
                }
            }
            head += 1;
        }
        Poll::Ready(answers.drain(..).flatten().collect())
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn run<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn all_are_started_in_order_before_the_first_has_answered() {
        let log = Mutex::new(Vec::new());
        let request = |number: u32| -> Pending<'_, u32, ()> {
            let log = &log;
            Box::pin(async move {
                log.lock().unwrap().push(number);
                tokio::task::yield_now().await;
                log.lock().unwrap().push(number + 100);
                Ok(number)
            })
        };
        let answers = run(in_order(vec![request(1), request(2), request(3)]));
        assert_eq!(answers, [Ok(1), Ok(2), Ok(3)]);
        assert_eq!(*log.lock().unwrap(), [1, 2, 3, 101, 102, 103]);
    }

    #[test]
    fn what_follows_a_request_that_was_not_sent_is_not_sent() {
        let started = Mutex::new(Vec::new());
        let request = |number: u32| -> Pending<'_, u32, u32> {
            let started = &started;
            Box::pin(async move {
                started.lock().unwrap().push(number);
                if number == 2 {
                    return Err(number);
                }
                tokio::task::yield_now().await;
                Ok(number)
            })
        };
        let answers = run(in_order(vec![request(1), request(2), request(3)]));
        assert_eq!(answers, [Ok(1), Err(2)]);
        assert_eq!(*started.lock().unwrap(), [1, 2]);
    }
}
