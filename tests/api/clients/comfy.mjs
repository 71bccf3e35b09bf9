// What programs do with ComfyUI: queue a prompt, listen on the web socket until it is done, read the history, fetch the files. The
// workflows are the official templates for this model in API form, at a size and length the demonstration model is quick at.
//
//   node comfy.mjs URL FOLDER      FOLDER holds first.png
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { connect } from "./web_socket.mjs";

const [url, folder] = process.argv.slice(2);
const clientId = randomUUID();

async function call(method, path, body) {
  const json = body !== undefined && !(body instanceof FormData);
  const answer = await fetch(url + path, { method, body: json ? JSON.stringify(body) : body, headers: json ? { "Content-Type": "application/json" } : {} });
  const text = await answer.text();
  return { status: answer.status, body: text === "" ? null : JSON.parse(text) };
}
async function good(method, path, body) {
  const answer = await call(method, path, body);
  assert.equal(answer.status, 200, `${method} ${path}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}
const workflow = (name) => JSON.parse(readFileSync(new URL(`../data/${name}.json`, import.meta.url), "utf8"));

// Queues a prompt and gives the messages about it until it is done, as ComfyUI's own example does it.
async function run(socket, prompt) {
  const queued = await good("POST", "/prompt", { prompt, client_id: clientId });
  assert.deepEqual(queued.node_errors, {});
  const messages = [];
  let previews = 0;
  for (;;) {
    const message = await socket.next();
    assert.ok(message, "the web socket was closed");
    if (message.binary) {
      assert.equal(message.binary.readUInt32BE(0), 1);
      assert.equal(message.binary.readUInt32BE(4), 1);
      assert.equal(message.binary.readUInt16BE(8), 0xffd8); // a JPEG
      previews += 1;
      continue;
    }
    const { type, data } = JSON.parse(message.text);
    messages.push({ type, data });
    if (type === "execution_error") assert.fail(JSON.stringify(data));
    if (type === "executing" && data.node === null && data.prompt_id === queued.prompt_id) break;
  }
  return { id: queued.prompt_id, messages, previews };
}

// Fetches every file of every output node.
async function files(id) {
  const history = (await good("GET", `/history/${id}`))[id];
  assert.equal(history.status.status_str, "success");
  const out = [];
  for (const output of Object.values(history.outputs)) {
    for (const file of output.images ?? output.gifs ?? output.videos) {
      const answer = await fetch(`${url}/view?${new URLSearchParams(file)}`);
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get("content-type"), "video/mp4");
      const bytes = Buffer.from(await answer.arrayBuffer());
      assert.equal(bytes.toString("latin1", 4, 8), "ftyp");
      const part = await fetch(`${url}/view?${new URLSearchParams(file)}`, { headers: { Range: "bytes=4-7" } });
      assert.equal(part.status, 206);
      assert.equal(await part.text(), "ftyp");
      out.push(bytes);
    }
  }
  assert.ok(out.length > 0, "no file");
  return out;
}

function small(prompt) {
  for (const node of Object.values(prompt)) {
    if (node.class_type === "ResolutionSelector") node.inputs.megapixels = 0.1;
    if (node.class_type === "PrimitiveFloat") node.inputs.value = 0.5;
    if (node.class_type === "PrimitiveInt") node.inputs.value = 2;
    if (node.class_type === "BasicScheduler" && typeof node.inputs.steps === "number") node.inputs.steps = 2;
  }
  return prompt;
}

const socket = await connect(`${url.replace(/^http/, "ws")}/ws?clientId=${clientId}`);
const hello = JSON.parse((await socket.next()).text);
assert.equal(hello.type, "status");
assert.equal(hello.data.sid, clientId);
assert.equal((await good("GET", "/system_stats")).devices.length > 0, true);
assert.ok((await good("GET", "/object_info/MiniMaxH3ImageToVideo")).MiniMaxH3ImageToVideo);

// Text to video, twice: two results.
const text = small(workflow("comfy_t2v"));
const first = await run(socket, text);
const types = first.messages.map((each) => each.type);
for (const type of ["execution_start", "execution_cached", "executing", "progress", "progress_state", "executed", "execution_success"])
  assert.ok(types.includes(type), `no ${type} in ${types}`);
assert.ok(types.indexOf("execution_start") < types.indexOf("executing"));
assert.ok(types.indexOf("executed") < types.indexOf("execution_success"));
const executed = first.messages.find((each) => each.type === "executed").data;
assert.equal(executed.node, "92");
assert.equal(executed.output.images[0].type, "output");
const [clip] = await files(first.id);
writeFileSync(`${folder}/comfy_t2v.mp4`, clip);
const second = await run(socket, text);
assert.notEqual(second.id, first.id);
await files(second.id);

// An uploaded picture as the first frame.
const form = new FormData();
form.append("image", new Blob([readFileSync(`${folder}/first.png`)]), "mouse.png");
form.append("overwrite", "true");
assert.equal((await good("POST", "/upload/image", form)).name, "mouse.png");
const picture = await run(socket, small(workflow("comfy_i2v")));
await files(picture.id);

// References need the other partition of the model: the node is told so.
form.set("image", new Blob([readFileSync(`${folder}/first.png`)]), "boy.png");
await good("POST", "/upload/image", form);
form.set("image", new Blob([readFileSync(`${folder}/last.png`)]), "dragon.png");
await good("POST", "/upload/image", form);
const refused = await call("POST", "/prompt", { prompt: small(workflow("comfy_r2v")), client_id: clientId });
assert.equal(refused.status, 400);
assert.match(JSON.stringify(refused.body), /Ref2VA/);

// A prompt id is used once; a bad value is told at its node; a waiting prompt is taken out, a running one interrupted.
const plain = workflow("comfy_ksampler");
const prompt_id = randomUUID();
await good("POST", "/api/prompt", { prompt: plain, prompt_id });
assert.equal((await call("POST", "/prompt", { prompt: plain, prompt_id })).status, 409);
plain["7"].inputs.cfg = 7;
const bad = await call("POST", "/prompt", { prompt: plain });
assert.equal(bad.status, 400);
assert.ok(bad.body.node_errors["7"]);
plain["7"].inputs.cfg = 1;
plain["7"].inputs.steps = 200;
const long = (await good("POST", "/prompt", { prompt: plain, client_id: clientId })).prompt_id;
const waiting = (await good("POST", "/prompt", { prompt: plain, client_id: clientId })).prompt_id;
await fetch(`${url}/queue`, { method: "POST", body: JSON.stringify({ delete: [waiting] }) });
for (;;) {
  const { queue_running, queue_pending } = await good("GET", "/queue");
  assert.ok(!queue_pending.some((each) => each[1] === waiting));
  if (queue_running.some((each) => each[1] === long)) break;
  await new Promise((done) => setTimeout(done, 20));
}
assert.equal((await fetch(`${url}/interrupt`, { method: "POST", body: JSON.stringify({ prompt_id: long }) })).status, 200);
let interrupted = false;
while (!interrupted) {
  const message = await socket.next();
  if (message.text) interrupted = JSON.parse(message.text).type === "execution_interrupted";
}
assert.deepEqual(await good("GET", `/history/${waiting}`), {});
const jobs = await good("GET", "/api/jobs?status=completed");
assert.ok(jobs.jobs.some((each) => each.id === first.id));
socket.close();
console.log(`comfy: ${first.messages.length} messages and ${first.previews} previews of the first prompt; ${clip.length} bytes`);
