// What clients cost the jobs: how much longer denoising takes while 200 clients poll and 50 follow events, how long a GET takes, and how soon
// a server with 1000 waiting jobs is back after it was killed.
//
//   node bench/serve_load.mjs build/release/src/cli/tritium [POLLERS STREAMS JOBS]
//
// Pollers ask once a second, as clients do. They run on the same machine as the server and take processor time themselves: what they take is
// printed beside the result.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [binary, pollers = "200", streams = "50", waiting = "1000"] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "tritium_load."));
const agent = new http.Agent({ keepAlive: true, maxSockets: 1000 });
let port = 0;

function ask(method, path, body) {
  return new Promise((resolve, reject) => {
    const begun = performance.now();
    const request = http.request({ host: "127.0.0.1", port, method, path, agent, headers: body ? { "content-type": "application/json" } : {} }, (answer) => {
      let text = "";
      answer.on("data", (piece) => (text += piece));
      answer.on("end", () => resolve({ status: answer.statusCode, text, ms: performance.now() - begun }));
    });
    request.on("error", reject);
    request.end(body && JSON.stringify(body));
  });
}

async function start(...more) {
  const begun = performance.now();
  const server = spawn(binary, ["serve", "--port", "0", "--data", folder, "--device", "CPU", "--no-access-log", "--max-queued", "5000", ...more]);
  let log = "";
  for await (const piece of server.stderr) {
    log += piece;
    const at = log.match(/listening at http:\/\/[^:]*:(\d+)/);
    if (!at) continue;
    port = Number(at[1]);
    server.stderr.on("data", () => {});
    return { server, ms: performance.now() - begun };
  }
  throw new Error(log);
}

// Seconds of processor time that the server itself has taken, without its workers.
function serverSeconds() {
  const fields = readFileSync(`/proc/${server.pid}/stat`, "latin1").replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const prompt = "a red circle moves to the right on a blue background with a low tone";

async function denoising(steps) {
  const { id } = JSON.parse((await ask("POST", "/v1/videos", { prompt, steps, seed: 1 })).text);
  for (;;) {
    const video = JSON.parse((await ask("GET", `/v1/videos/${id}`)).text);
    if (video.status === "completed") return { id, seconds: video.timings.denoise };
    if (video.status === "failed") throw new Error(JSON.stringify(video.error));
    await sleep(100);
  }
}

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const quantile = (list, q) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * q))];

// Alone and with the clients in turn, so that what else the machine does meets both.
let { server } = await start();
const { id: watched } = await denoising(20);
const alone = [], loaded = [], times = [];
let events = 0;
for (let round = 0; round < 5; ++round) {
  alone.push((await denoising(300)).seconds);
  let over = false;
  const before = process.cpuUsage(), begun = performance.now(), serverBefore = serverSeconds();
  const clients = Array.from({ length: Number(pollers) }, async (_, i) => {
    await sleep((1000 * i) / Number(pollers));
    while (!over) {
      const answer = await ask("GET", i % 4 === 0 ? "/v1/videos?limit=20" : `/v1/videos/${watched}`);
      if (answer.status !== 200) throw new Error(answer.text);
      times.push(answer.ms);
      await sleep(1000);
    }
  });
  const followers = Array.from({ length: Number(streams) }, () =>
    http.get({ host: "127.0.0.1", port, path: "/v1/events", agent: new http.Agent() }, (answer) => answer.on("data", () => ++events)));
  for (const follower of followers) follower.on("error", () => {});
  await sleep(1500);
  loaded.push((await denoising(300)).seconds);
  over = true;
  for (const follower of followers) follower.destroy();
  await Promise.all(clients);
  const used = process.cpuUsage(before), elapsed = performance.now() - begun;
  console.log(`round ${round + 1}: alone ${alone.at(-1).toFixed(2)} s, with clients ${loaded.at(-1).toFixed(2)} s; the server took ` +
    `${((serverSeconds() - serverBefore) * 1e5 / elapsed).toFixed(0)} % of a processor, the clients ${((used.user + used.system) / 10 / elapsed).toFixed(0)} %`);
}
console.log(`denoising: ${median(alone).toFixed(2)} s alone, ${median(loaded).toFixed(2)} s with ${pollers} pollers and ${streams} event streams: ` +
  `${(100 * (median(loaded) / median(alone) - 1)).toFixed(1)} % longer`);
console.log(`GET: ${times.length} answers, median ${median(times).toFixed(1)} ms, p99 ${quantile(times, 0.99).toFixed(1)} ms; ${events} pieces of events`);

// A server that is killed with many jobs waiting.
for (let i = 0; i < Number(waiting); i += 20)
  await Promise.all(Array.from({ length: 20 }, () => ask("POST", "/v1/videos", { prompt, steps: 1000 })));
server.kill("SIGKILL");
await once(server, "exit");
const again = await start();
const status = JSON.parse((await ask("GET", "/status")).text);
console.log(`restart: ${status.queued + status.running} jobs are back ${(again.ms / 1000).toFixed(2)} s after the start of the process`);
again.server.kill("SIGKILL");
agent.destroy();
rmSync(folder, { recursive: true });
process.exit(0);
