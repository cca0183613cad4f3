// The official client, told by one line of JSON what to do: send to these tokens chunk by
// chunk, as its README shows, and then read the receipts of these tickets. What became of
// each message and receipt is one line of JSON on standard output.
import { Expo } from 'expo-server-sdk';
import { createInterface } from 'node:readline';

const outcome = (ticket) => {
  if (ticket === null || typeof ticket !== 'object') return { spoilt: true };
  if (ticket.status === 'error') return { error: ticket.details?.error ?? null };
  return { ok: ticket.id ?? null };
};

const failure = (error) => ({
  failed: error.code && !String(error.code).startsWith('UND_') ? error.code : (error.statusCode ?? 'no answer'),
});

async function run({ tokens, bearer, tickets }) {
  const expo = new Expo({ accessToken: bearer, maxConcurrentRequests: 1, retryMinTimeout: 1 });
  const outcomes = [];
  for (const chunk of expo.chunkPushNotifications(tokens.map((to) => ({ to })))) {
    try {
      outcomes.push(...(await expo.sendPushNotificationsAsync(chunk)).map(outcome));
    } catch (error) {
      outcomes.push(...chunk.map(() => failure(error)));
    }
  }
  const receipts = {};
  for (const chunk of expo.chunkPushNotificationReceiptIds(tickets)) {
    try {
      for (const [id, receipt] of Object.entries(await expo.getPushNotificationReceiptsAsync(chunk))) {
        receipts[id] = receipt.status === 'ok' ? 'ok' : (receipt.details?.error ?? null);
      }
    } catch (error) {
      receipts.failed = failure(error).failed;
    }
  }
  return { outcomes, receipts };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await run(JSON.parse(line))));
}
