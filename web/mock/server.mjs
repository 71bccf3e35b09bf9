// A server that answers like `tritium serve` without a model: for working on the page, and for tests of what a real server rarely does
// (failures, refusals, lost connections, keys).
//
//   node mock/server.mjs [PORT]          serves dist/ and the interface; TRITIUM_MOCK_KEY=KEY wants that key
//
// A prompt with the word "fail" fails, one with "slow" takes twenty times as long. POST /mock/drop ends all event streams, POST /mock/deaf
// refuses new ones, POST /mock/hear accepts them again.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const dist = join(dirname(fileURLToPath(import.meta.url)), '../dist');
const types = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};
// As in src/server/ui/ui_routes.cpp.
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// A second of colour bars with a tone.
function clip() {
  const made = spawnSync(
    'ffmpeg',
    [
      '-v',
      'error',
      '-f',
      'lavfi',
      '-i',
      'testsrc=size=96x96:rate=24:duration=1',
      '-f',
      'lavfi',
      '-i',
      'sine=frequency=440:duration=1',
      '-pix_fmt',
      'yuv420p',
      '-c:v',
      'libx264',
      '-c:a',
      'aac',
      '-shortest',
      '-movflags',
      'frag_keyframe+empty_moov',
      '-f',
      'mp4',
      '-',
    ],
    { maxBuffer: 1 << 24 },
  );
  return made.status === 0 ? made.stdout : Buffer.alloc(0);
}

function picture() {
  const made = spawnSync('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', 'testsrc=size=96x96', '-frames:v', '1', '-f', 'mjpeg', '-'], {
    maxBuffer: 1 << 24,
  });
  return made.status === 0 ? made.stdout : Buffer.alloc(0);
}

const stages = [
  ['load', 1],
  ['text', 3],
  ['denoise', 20],
  ['video', 4],
  ['audio', 2],
  ['write', 1],
];
const stepMs = 20;
const total = stages.reduce((sum, [, steps]) => sum + steps, 0);

let media; // made once

export async function startMock({ port = 0, key = '' } = {}) {
  const jobs = new Map();
  const streams = new Set();
  const received = [];
  media ??= { video: clip(), thumbnail: picture() };
  let eventId = 0;
  let deaf = false;
  let running = null;
  let sequence = 0;

  const send = (name, data) => {
    eventId += 1;
    for (const stream of streams) stream.write(`id: ${eventId}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  };
  const waiting = () => [...jobs.values()].filter((job) => job.video.status === 'queued');
  const shown = (job) => {
    const place = waiting().indexOf(job);
    return { ...job.video, queue_position: place < 0 ? null : place };
  };
  const state = (job) => send('state', shown(job));

  function plan(body) {
    const width = Math.ceil((Number(body.width) || 96) / 32) * 32;
    const height = Math.ceil((Number(body.height) || 96) / 32) * 32;
    const asked = body.seconds ? Math.ceil(Number(body.seconds) * 24 - 1e-6) : 22;
    const frames = 17 * Math.ceil((asked - 5) / 17) + 5;
    const adjustments = [];
    if (body.width && width !== Number(body.width))
      adjustments.push({ field: 'width', from: String(body.width), to: String(width), reason: 'sizes are multiples of 32' });
    if (frames !== asked) {
      const seconds = String(frames / 24);
      adjustments.push({ field: 'seconds', from: String(body.seconds), to: seconds, reason: 'clips have 17n+5 frames at 24 per second' });
    }
    const need = width * height * frames * 300;
    const budget = 16 * 2 ** 30;
    return {
      refused: need > budget,
      mode: body.retake ? 'retake' : body.references ? 'ref2va' : body.first_frame || body.last_frame ? 'fl2va' : 't2va',
      prompt: body.prompt,
      width,
      height,
      frames,
      fps: 24,
      seconds: frames / 24,
      steps: Number(body.num_inference_steps) || 20,
      seed: body.seed === undefined ? 4242 : Number(body.seed),
      video_shift: 12,
      audio_shift: 3,
      adjustments,
      warnings: [],
      notes: [],
      text_tokens: Math.ceil((body.prompt ?? '').length / 4),
      rows: 152,
      stages: stages.map(([stage]) => ({ stage, device: 'CPU', seconds: 0.1, load_seconds: 0 })),
      memories: [{ memory: 'host', peak_bytes: need + 150 * 2 ** 20, budget_bytes: budget }],
      expected_seconds: 1.5,
      peak_bytes: need,
      available_bytes: budget,
    };
  }

  async function work() {
    if (running) return;
    const job = waiting()[0];
    if (!job) return;
    running = job;
    job.video.status = 'in_progress';
    state(job);
    let done = 0;
    for (const [stage, of] of stages)
      for (let step = 1; step <= of; step++) {
        await new Promise((resolve) => setTimeout(resolve, /slow/.test(job.video.prompt) ? 20 * stepMs : stepMs));
        if (job.stopped) break;
        done += 1;
        Object.assign(job.video, {
          stage,
          step,
          of,
          progress: Math.floor((100 * done) / total),
          eta_seconds: ((total - done) * stepMs) / 1000,
        });
        send('progress', { id: job.video.id, stage, step, of, fraction: done / total, eta_seconds: job.video.eta_seconds });
        if (stage === 'denoise' && step % 5 === 0)
          send('preview', { id: job.video.id, mime_type: 'image/jpeg', data: media.thumbnail.toString('base64') });
        if (stage === 'denoise' && step === 10 && /fail/.test(job.video.prompt))
          job.failure = {
            code: 'failure',
            message: 'the worker died while denoising',
            hint: 'look at its last words',
            stage,
            last_words: 'ggml: out of memory\nsignal 6',
          };
        if (job.failure) break;
      }
    running = null;
    if (jobs.has(job.video.id)) {
      const now = Math.floor(Date.now() / 1000);
      job.video.status = job.stopped || job.failure ? 'failed' : 'completed';
      job.video.state = job.stopped ? 'cancelled' : job.video.status;
      Object.assign(job.video, { completed_at: now, error: job.failure ?? null, eta_seconds: null });
      if (job.video.status === 'completed')
        Object.assign(job.video, {
          progress: 100,
          expires_at: now + 86400,
          timings: Object.fromEntries(stages.map(([stage]) => [stage, 0.1])),
        });
      state(job);
    }
    void work();
  }

  function create(body, finished = false) {
    const planned = plan(body);
    sequence += 1;
    const id = `video_${String(sequence).padStart(6, '0')}`;
    const video = {
      id,
      object: 'video',
      model: 'mock',
      status: 'queued',
      progress: 0,
      created_at: Math.floor(Date.now() / 1000),
      prompt: body.prompt,
      size: `${planned.width}x${planned.height}`,
      seconds: planned.seconds.toFixed(3),
      seed: planned.seed,
      num_frames: planned.frames,
      num_inference_steps: planned.steps,
      flow_shift: 12,
      audio_flow_shift: 3,
      adjustments: planned.adjustments,
      warnings: [],
      timings: {},
      request: body,
    };
    // Files stay here and have another name.
    for (const name of ['first_frame', 'last_frame']) if (body[name]) video.request = { ...video.request, [name]: `tritium:${id}/${name}` };
    if (video.request.num_inference_steps) video.request.num_inference_steps = planned.steps;
    const job = { video };
    jobs.set(id, job);
    if (finished) return job;
    state(job);
    void work();
    return job;
  }

  async function bodyOf(request) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const type = request.headers['content-type'] ?? '';
    if (!type.startsWith('multipart/')) return bytes.length > 0 ? JSON.parse(bytes.toString()) : {};
    const form = await new Response(bytes, { headers: { 'content-type': type } }).formData();
    return Object.fromEntries(
      [...form.entries()].map(([name, value]) => [name, typeof value === 'string' ? value : `form:${name}:${value.name}`]),
    );
  }

  const server = createServer(
    (request, response) =>
      void answer(request, response).catch((error) => {
        response.writeHead(500).end(String(error));
      }),
  );

  async function answer(request, response) {
    const url = new URL(request.url, 'http://mock');
    const json = (status, document, headers = {}) =>
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(document));
    const refuse = (status, message, extra = {}) => json(status, { error: { message, type: 'invalid_request_error', ...extra } });
    const route = `${request.method} ${url.pathname}`;
    if (route === 'POST /mock/drop') {
      for (const stream of streams) stream.destroy();
      return json(200, {});
    }
    if (route === 'POST /mock/deaf' || route === 'POST /mock/hear') {
      deaf = route.endsWith('deaf');
      return json(200, {});
    }
    if (!url.pathname.startsWith('/v1/')) {
      const asset = /^\/assets\/[\w.-]+$/.test(url.pathname);
      if (!asset && url.pathname !== '/' && !/^\/clips\/[\w-]+$/.test(url.pathname)) return refuse(404, 'not found');
      const file = asset ? url.pathname : '/index.html';
      return response
        .writeHead(200, { 'content-type': types[extname(file)], 'content-security-policy': policy })
        .end(readFileSync(join(dist, file)));
    }
    if (key && request.headers.authorization !== `Bearer ${key}`) return refuse(401, 'a key is needed', { code: 'invalid_api_key' });
    if (route === 'GET /v1/models')
      return json(200, {
        data: [{ id: 'mock', defaults: { width: 96, height: 96, frames: 22, steps: 20, video_shift: 12, audio_shift: 3 } }],
      });
    if (route === 'GET /v1/loras') return json(200, { data: [{ id: 'turbo' }] });
    if (route === 'GET /v1/events') {
      if (deaf) return refuse(503, 'no streams');
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
      response.write('retry: 300\n\n');
      streams.add(response);
      return response.on('close', () => streams.delete(response));
    }
    if (route === 'POST /v1/videos/plan' || route === 'POST /v1/videos') {
      const body = await bodyOf(request);
      const planned = plan(body);
      if (planned.refused)
        return refuse(422, `${planned.width}x${planned.height} needs 40.00 GiB of host memory, 16.00 GiB is allowed`, {
          code: 'does_not_fit',
          hint: 'what would fit: 1024x576; or 90 frames',
        });
      if (route.endsWith('plan')) return json(200, planned);
      received.push(body);
      return json(200, shown(create(body)));
    }
    if (route === 'GET /v1/videos') {
      const all = [...jobs.values()].reverse();
      const limit = Number(url.searchParams.get('limit') ?? 20);
      const after = url.searchParams.get('after');
      const from = after ? all.findIndex((job) => job.video.id === after) + 1 : 0;
      const data = all.slice(from, from + limit).map(shown);
      return json(200, { object: 'list', data, has_more: from + limit < all.length, last_id: data.at(-1)?.id ?? null });
    }
    const match = /^\/v1\/videos\/([\w-]+)(?:\/(content|cancel|retry|inputs\/[\w/]+))?$/.exec(url.pathname);
    const job = match && jobs.get(match[1]);
    if (!job) return refuse(404, 'there is no such video');
    if (match[2] === 'content') {
      if (job.video.status !== 'completed') return refuse(404, 'not completed');
      const thumbnail = url.searchParams.get('variant') === 'thumbnail';
      return response
        .writeHead(200, { 'content-type': thumbnail ? 'image/jpeg' : 'video/mp4' })
        .end(thumbnail ? media.thumbnail : media.video);
    }
    if (match[2]?.startsWith('inputs/')) return response.writeHead(200, { 'content-type': 'image/jpeg' }).end(media.thumbnail);
    if (match[2] === 'retry') return json(200, shown(create(job.video.request)));
    if (match[2] === 'cancel' || request.method === 'DELETE') {
      job.stopped = true;
      if (job.video.status === 'queued') {
        Object.assign(job.video, { status: 'failed', state: 'cancelled', error: { code: 'cancelled', message: 'the job was cancelled' } });
        state(job);
      } else if (job.video.status === 'in_progress') job.video.cancel_requested = true;
      if (request.method !== 'DELETE') return json(200, shown(job));
      jobs.delete(job.video.id);
      send('removed', { id: job.video.id });
      return json(200, { id: job.video.id, object: 'video.deleted', deleted: true });
    }
    return json(200, shown(job));
  }

  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    received, // bodies of new jobs, as fields and values
    // A finished job from the past, for galleries with many pages.
    add: (prompt) => {
      const job = create({ prompt }, true);
      Object.assign(job.video, { status: 'completed', progress: 100 });
      return job.video.id;
    },
    close: () => {
      for (const stream of streams) stream.destroy();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = await startMock({ port: Number(process.argv[2] ?? 8188), key: process.env.TRITIUM_MOCK_KEY ?? '' });
  console.log(mock.url);
}
