// A client's side of RFC 6455 as far as a test needs it, without packages: text, binary, ping and close.
import { createHash, randomBytes } from "node:crypto";
import { request } from "node:http";

// Frames of a stream; `deliver` gets (opcode, payload) of whole messages.
function parser(deliver) {
  let pending = Buffer.alloc(0);
  let message = [];
  let opcode = 0;
  return (bytes) => {
    pending = Buffer.concat([pending, bytes]);
    for (;;) {
      if (pending.length < 2) return;
      let length = pending[1] & 127;
      let at = 2;
      if (length === 126) {
        if (pending.length < 4) return;
        length = pending.readUInt16BE(2);
        at = 4;
      } else if (length === 127) {
        if (pending.length < 10) return;
        length = Number(pending.readBigUInt64BE(2));
        at = 10;
      }
      if (pending.length < at + length) return;
      const kind = pending[0] & 15;
      const payload = pending.subarray(at, at + length);
      const last = (pending[0] & 128) !== 0;
      pending = pending.subarray(at + length);
      if (kind >= 8) {
        deliver(kind, payload);
        continue;
      }
      if (kind !== 0) opcode = kind;
      message.push(payload);
      if (!last) continue;
      deliver(opcode, Buffer.concat(message));
      message = [];
    }
  };
}

function frame(opcode, payload) {
  const mask = randomBytes(4);
  const head = payload.length < 126 ? Buffer.from([128 | opcode, 128 | payload.length]) : Buffer.from([128 | opcode, 128 | 126, payload.length >> 8, payload.length & 255]);
  return Buffer.concat([head, mask, Buffer.from(payload.map((byte, i) => byte ^ mask[i % 4]))]);
}

// Gives {next(), send(text), close()}; next() resolves with {text} or {binary}, or null when the server has closed.
export function connect(url) {
  const key = randomBytes(16).toString("base64");
  const headers = { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Key": key, "Sec-WebSocket-Version": "13" };
  return new Promise((resolve, reject) => {
    const call = request(url.replace(/^ws/, "http"), { headers });
    call.on("error", reject);
    call.on("response", (answer) => reject(new Error(`no web socket: status ${answer.statusCode}`)));
    call.on("upgrade", (answer, socket, first) => {
      const accept = createHash("sha1").update(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
      if (answer.headers["sec-websocket-accept"] !== accept) return reject(new Error("the handshake is wrong"));
      const messages = [];
      let waiting = null;
      let over = false;
      const give = (message) => (waiting ? (waiting(message), (waiting = null)) : messages.push(message));
      const end = () => {
        if (over) return;
        over = true;
        give(null);
      };
      const parse = parser((opcode, payload) => {
        if (opcode === 1) give({ text: payload.toString("utf8") });
        if (opcode === 2) give({ binary: Buffer.from(payload) });
        if (opcode === 9) socket.write(frame(10, payload));
        if (opcode === 8) end();
      });
      socket.on("data", parse);
      socket.on("close", end);
      socket.on("error", end);
      resolve({
        next: () => (messages.length > 0 ? Promise.resolve(messages.shift()) : over ? Promise.resolve(null) : new Promise((done) => (waiting = done))),
        send: (text) => socket.write(frame(1, Buffer.from(text, "utf8"))),
        close: () => socket.end(frame(8, Buffer.alloc(0))),
      });
      if (first.length > 0) parse(first);
    });
    call.end();
  });
}
