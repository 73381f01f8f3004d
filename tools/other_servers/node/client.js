// Consumes or produces with KafkaJS, as its manual shows:
//
//     node client.js consume|produce BOOTSTRAP TOPIC GROUP
//
// It authenticates with SASL/PLAIN. The consumer prints the value of every record until SIGTERM;
// the idempotent producer writes thirty records and ends.
"use strict";

const { Kafka } = require("kafkajs");

const [way, bootstrap, topic, groupId] = process.argv.slice(2);
const kafka = new Kafka({
  brokers: [bootstrap],
  sasl: { mechanism: "plain", username: "kwire", password: "kwire" },
  logCreator: () => (entry) => console.error(JSON.stringify(entry)),
});

async function consume() {
  const consumer = kafka.consumer({ groupId });
  process.once("SIGTERM", () => consumer.disconnect().then(() => process.exit(0)));
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message }) => {
      const value = message.value === null ? "null" : message.value.toString("latin1");
      process.stdout.write(value.split("\n")[0] + "\n", "latin1");
    },
  });
}

async function produce() {
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  for (let first = 0; first < 30; first += 5) {
    const messages = [0, 1, 2, 3, 4].map((more) => ({
      value: "record " + String(first + more).padStart(3, "0"),
      partition: 0,
    }));
    await producer.send({ topic, messages });
  }
  await producer.disconnect();
}

(way === "consume" ? consume() : produce()).catch((error) => {
  console.error(error);
  process.exit(1);
});
