// OpenAI's SDK, unchanged: every call of client.videos that has a counterpart here, and the errors of the others.
//
//   node openai.mjs URL FOLDER      FOLDER holds first.png
import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { writeFile } from "node:fs/promises";
import OpenAI, { APIError, BadRequestError, NotFoundError } from "openai";

const [url, folder] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const prompt = "a red circle moves to the right on a blue background with a low tone";

async function finished(id) {
  for (let progress = -1; ; ) {
    const video = await client.videos.retrieve(id);
    assert.equal(video.object, "video");
    assert.ok(["queued", "in_progress", "completed", "failed"].includes(video.status), video.status);
    assert.ok(video.progress >= progress, `progress fell from ${progress} to ${video.progress}`);
    if (video.status === "completed" || video.status === "failed") return video;
    progress = video.progress;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// From a prompt; seconds as the type of the SDK has them.
const created = await client.videos.create({ model: "sora-2", prompt, seconds: "4", size: "96x96", num_inference_steps: 2 });
assert.match(created.id, /^[A-Za-z0-9_-]+$/);
assert.equal(created.seconds, "4");
assert.equal(created.size, "96x96");
assert.equal(created.prompt, prompt);
assert.ok(Math.abs(created.created_at - Date.now() / 1000) < 600);
assert.equal(created.error, null);
const video = await finished(created.id);
assert.equal(video.status, "completed", JSON.stringify(video.error));
assert.equal(video.progress, 100);
assert.ok(video.completed_at >= video.created_at && video.expires_at > video.completed_at);

const clip = Buffer.from(await (await client.videos.downloadContent(video.id)).arrayBuffer());
assert.equal(clip.subarray(4, 8).toString("latin1"), "ftyp");
await writeFile(`${folder}/openai.mp4`, clip);
const thumbnail = Buffer.from(await (await client.videos.downloadContent(video.id, { variant: "thumbnail" })).arrayBuffer());
assert.equal(thumbnail.readUInt16BE(0), 0xffd8);

// With a picture, and seconds as a number, which other programs send.
const animated = await client.videos.create({
  prompt, seconds: 1, size: "96x96", num_inference_steps: 2, input_reference: createReadStream(`${folder}/first.png`),
});
assert.equal(animated.task, "fl2va");
assert.equal((await finished(animated.id)).status, "completed");
const embedded = await client.videos.create({
  prompt, seconds: "1", num_inference_steps: 2,
  input_reference: { image_url: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC" },
});
assert.equal(embedded.task, "fl2va");

const remixed = await client.videos.remix(video.id, { prompt: "a green circle moves to the left on a black background" });
assert.equal(remixed.remixed_from_video_id, video.id);
assert.equal((await finished(remixed.id)).status, "completed");

// Lists page by page: the SDK asks for the next one by itself.
const seen = [];
for await (const one of client.videos.list({ limit: 2, order: "asc" })) seen.push(one.id);
assert.deepEqual(seen, [video.id, animated.id, embedded.id, remixed.id]);

const deleted = await client.videos.delete(video.id);
assert.deepEqual([deleted.id, deleted.object, deleted.deleted], [video.id, "video.deleted", true]);
await assert.rejects(client.videos.retrieve(video.id), NotFoundError);
await assert.rejects(client.videos.downloadContent(video.id), NotFoundError);

await assert.rejects(client.videos.create({ prompt, seconds: "long" }), (error) => {
  assert.ok(error instanceof BadRequestError);
  assert.equal(error.param, "seconds");
  assert.match(error.message, /long/);
  assert.match(error.requestID, /^req_/);
  return true;
});
for (const call of [client.videos.extend?.({ prompt, seconds: "4", video: { id: remixed.id } }), client.videos.edit?.({ prompt, video: { id: remixed.id } })])
  if (call) await assert.rejects(call, (error) => error instanceof APIError && error.status === 400 && /\(.*\)/.test(error.message));

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.equal(models.length, 1);
assert.equal((await client.models.retrieve(models[0])).object, "model");
console.log("openai: ok");
