// Talks to an AG-UI endpoint with the official client, and prints what the client makes of it.
//
//   node converse.mjs URL THREAD '[{"say": "Hello."}, {"decide": {"approved": true}}]'
//
// One line of JSON for each turn: the types of the events, how it ended, the messages there are.
import { HttpAgent } from "@ag-ui/client";

const [url, threadId, turns] = process.argv.slice(2);
const agent = new HttpAgent({ url, threadId });

for (const turn of JSON.parse(turns)) {
  const types = [];
  let end = null;
  const subscriber = {
    onEvent: ({ event }) => void types.push(event.type),
    onRunFinishedEvent: ({ event }) => void (end = event),
    onRunErrorEvent: ({ event }) => void (end = event),
    onRunFailed: ({ error }) => void (end = { failed: String(error) }),
  };
  const parameters = {};
  if (turn.say) agent.addMessage({ id: turn.id, role: "user", content: turn.say });
  if (turn.decide) {
    parameters.resume = agent.pendingInterrupts.map(({ id }) => ({
      interruptId: id,
      status: "resolved",
      payload: turn.decide,
    }));
  }
  try {
    await agent.runAgent(parameters, subscriber);
  } catch (error) {
    end ??= { failed: String(error) };
  }
  console.log(JSON.stringify({ types, end, messages: agent.messages }));
}
