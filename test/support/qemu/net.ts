import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { NET } from '../../../src/index.js';
import type { Random } from '../../fuzz/prng.js';
import type { Load } from '../engines.js';
import { Guest, type GuestQueue, type Machine } from './guest.js';

/** `virtio_net_hdr`, which has num_buffers in its last two bytes. */
const HEADER_BYTES = 12;
const NUM_BUFFERS = 10;
const FRAME_MIN = 60;
export const FRAME_MAX = 4000;

/** A receive buffer: a frame of FRAME_MAX takes three of them. */
const RECEIVE_BYTES = 1536;
const RECEIVE_BUFFERS = 128;
const TRANSMIT_BYTES = 4096;
/** Most frames under way. */
const WINDOW = 32;

const SLOT = 5;

const machine = (socket: string): Machine => ({
  options: [
    ['-netdev', `stream,id=n0,server=off,addr.type=unix,addr.path=${socket}`],
    [
      '-device',
      `virtio-net-pci,netdev=n0,addr=${SLOT},disable-legacy=on,romfile=,packed=on,mac=52:54:00:12:34:56`,
    ],
  ].flat(),
  slot: SLOT,
  pci: { deviceType: NET },
});

/** What is at the other end of the wire: sends every frame back. */
class Echo {
  frames = 0;
  private readonly server: Server;
  private readonly sockets: Socket[] = [];

  constructor(path: string) {
    this.server = createServer((socket) => {
      this.sockets.push(socket);
      let rest = Buffer.alloc(0);
      socket.on('error', () => socket.destroy());
      socket.on('data', (data) => {
        rest = Buffer.concat([rest, data as Buffer]);
        let end = 0;
        // Each frame has its length in front, in four bytes.
        while (rest.length >= end + 4 && rest.length >= end + 4 + rest.readUInt32BE(end)) {
          end += 4 + rest.readUInt32BE(end);
          this.frames++;
        }
        if (end > 0) socket.write(rest.subarray(0, end));
        rest = rest.subarray(end);
      });
    }).listen(path);
  }

  close(): void {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
  }
}

/** Runs `act` with a QEMU whose network device talks to an echo. */
export async function withNet(load: Load, act: (guest: Guest, echo: Echo) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'vring-net-'));
  const socket = join(folder, 'wire');
  const echo = new Echo(socket);
  try {
    await Guest.with(load, machine(socket), (guest) => act(guest, echo));
  } finally {
    echo.close();
    rmSync(folder, { recursive: true });
  }
}

/** Sends frames and takes them back from an echo, in merged receive buffers. */
export class NetTraffic {
  sent = 0;
  /** Frames that came back, and were the same. */
  received = 0;
  /** Receive buffers that were used, and the most for one frame. */
  buffers = 0;
  mergedMost = 0;
  /** Frames under way, oldest first. */
  private readonly expected: Uint8Array[] = [];
  /** What has come of a frame, and how many buffers are to come. */
  private readonly parts: Uint8Array[] = [];
  private missing = 0;
  private readonly memory: number;
  private readonly posted = new Set<number>();
  private readonly sending = new Set<number>();
  private readonly completions;

  constructor(
    private readonly guest: Guest,
    private readonly receive: GuestQueue,
    private readonly transmit: GuestQueue,
    private readonly random: Random,
  ) {
    this.memory = guest.ram.alloc(RECEIVE_BUFFERS * RECEIVE_BYTES + WINDOW * TRANSMIT_BYTES);
    this.completions = receive.driver.createCompletions(32);
  }

  /** Posts receive buffers, as many as there is room for. */
  async fill(): Promise<void> {
    for (let token = 0; token < RECEIVE_BUFFERS; token++) {
      if (this.posted.has(token)) continue;
      const at = this.memory + token * RECEIVE_BYTES;
      // In two pieces, so that it can go through a table.
      const pieces = [this.guest.segment(at, 100), this.guest.segment(at + 100, RECEIVE_BYTES - 100)];
      if (!this.receive.driver.add([], pieces, token)) break;
      this.posted.add(token);
    }
    await this.receive.kick();
  }

  /** Sends `count` frames of any length and takes them back. */
  async run(count: number): Promise<void> {
    const end = this.received + count;
    const goal = this.sent + count;
    while (this.received < end) {
      while (this.sent < goal && this.expected.length < WINDOW && this.send()) this.sent++;
      await this.transmit.kick();
      const taken = this.takeSent() + this.takeReceived();
      await this.fill();
      if (taken === 0) await this.receive.idle();
    }
    while (this.transmit.driver.inFlight > 0) if (this.takeSent() === 0) await this.transmit.idle();
  }

  /** Sends one frame at a time, and looks at each queue only when its interrupt has come. */
  async runByInterrupt(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      for (const { interrupt, driver } of [this.receive, this.transmit]) {
        interrupt.clear();
        expect(driver.enableCallbacks(), 'nothing is left to take').to.equal(true);
      }
      expect(this.send()).to.equal(true);
      this.sent++;
      await this.transmit.kick();
      await this.transmit.interrupt.wait();
      expect(this.takeSent(), 'frames gone after an interrupt').to.equal(1);
      await this.receive.interrupt.wait();
      this.takeReceived();
      expect(this.received, 'frames back after an interrupt').to.equal(this.sent);
      await this.fill();
    }
  }

  private send(): boolean {
    const slot = Array.from({ length: WINDOW }, (_, i) => i).find((i) => !this.sending.has(i));
    if (slot === undefined) return false;
    const { guest, random } = this;
    const length = random.once(4)
      ? FRAME_MAX - random.below(100)
      : FRAME_MIN + random.below(FRAME_MAX - FRAME_MIN);
    const at = this.memory + RECEIVE_BUFFERS * RECEIVE_BYTES + slot * TRANSMIT_BYTES;
    const frame = Uint8Array.from({ length }, () => random.u32() >>> 9);
    const { bytes } = guest;
    bytes.fill(0, at, at + HEADER_BYTES);
    bytes.set(frame, at + HEADER_BYTES);
    const pieces = [guest.segment(at, HEADER_BYTES), guest.segment(at + HEADER_BYTES, length)];
    if (!this.transmit.driver.add(pieces, [], slot)) return false;
    this.sending.add(slot);
    this.expected.push(frame);
    return true;
  }

  private takeSent(): number {
    const got = this.transmit.driver.getBurst(this.completions);
    for (let i = 0; i < got; i++) {
      expect(this.completions.length(i), 'bytes written into a sent frame').to.equal(0);
      expect(this.sending.delete(this.completions.token(i)), 'a frame came back twice').to.equal(true);
    }
    return got;
  }

  private takeReceived(): number {
    const got = this.receive.driver.getBurst(this.completions);
    for (let i = 0; i < got; i++) {
      const token = this.completions.token(i);
      expect(this.posted.delete(token), 'a receive buffer came back twice').to.equal(true);
      const at = this.memory + token * RECEIVE_BYTES;
      const part = this.guest.bytes.slice(at, at + this.completions.length(i));
      this.buffers++;
      if (this.missing === 0) {
        this.missing = part[NUM_BUFFERS] | (part[NUM_BUFFERS + 1] << 8);
        expect(this.missing, 'num_buffers').to.be.within(1, 3);
        this.mergedMost = Math.max(this.mergedMost, this.missing);
        this.parts.push(part.subarray(HEADER_BYTES));
      } else this.parts.push(part);
      if (--this.missing === 0) this.compare(Buffer.concat(this.parts.splice(0)));
    }
    return got;
  }

  private compare(frame: Uint8Array): void {
    const wanted = this.expected.shift();
    if (wanted === undefined) throw new Error(`a frame of ${frame.length} bytes that nobody sent`);
    expect(frame.length, `length of frame ${this.received}`).to.equal(wanted.length);
    expect(Buffer.compare(frame, wanted), `bytes of frame ${this.received}`).to.equal(0);
    this.received++;
  }

  /** Sees that these are the posted receive buffers, and forgets them. */
  takeBack(tokens: number[]): void {
    expect(tokens).to.have.members([...this.posted]);
    this.posted.clear();
  }

  release(): void {
    this.completions.free();
    this.guest.ram.free(this.memory);
  }
}
