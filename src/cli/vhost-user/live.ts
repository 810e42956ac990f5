import { clearLine, cursorTo } from 'node:readline';
import type { Backend } from '../../vhost-user/backend.js';
import type { Device } from '../../vhost-user/device.js';
import type { Io } from '../io.js';

const PERIOD_MS = 1000;

interface Sample {
  time: number;
  used: number;
  sent: number;
  suppressed: number;
}

/** A line that tells once a second how the device is doing; nothing if nobody watches. */
export class LiveLine {
  private readonly timer: NodeJS.Timeout | undefined;
  private last: Sample;

  constructor(
    private readonly io: Io,
    private readonly backend: Pick<Backend, 'queues'>,
    private readonly device: Device,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.last = this.sample();
    if (io.progress !== undefined) this.timer = setInterval(() => this.show(), PERIOD_MS);
  }

  clear(): void {
    if (this.io.progress === undefined) return;
    clearLine(this.io.progress, 0);
    cursorTo(this.io.progress, 0);
  }

  stop(): void {
    clearInterval(this.timer);
    this.clear();
  }

  private sample(): Sample {
    const stats = this.backend.queues.map(({ queue }) => queue.stats());
    return {
      time: this.now(),
      used: stats.reduce((sum, { completed }) => sum + completed, 0),
      sent: stats.reduce((sum, { interruptsSent }) => sum + interruptsSent, 0),
      suppressed: stats.reduce((sum, { interruptsSuppressed }) => sum + interruptsSuppressed, 0),
    };
  }

  /** Writes it anew. */
  show(): void {
    const now = this.sample();
    const { last } = this;
    this.last = now;
    const { queues } = this.backend;
    if (queues.length === 0) {
      this.clear();
      return;
    }
    // A connection that is new starts to count anew.
    const used = now.used < last.used ? now.used : now.used - last.used;
    const rate = (used * 1000) / (now.time - last.time);
    const rings = queues.map(({ index, queue }) => `${index}: ${occupied(queue)}/${queue.size}`).join(' ');
    const text =
      `${rate.toFixed(0)} buffers/s · waiting ${rings} · notifications ` +
      `${now.sent} sent ${now.suppressed} suppressed · ${counts(this.device)}`;
    this.clear();
    this.io.progress?.write(text.slice(0, this.io.columns - 1));
  }
}

/** Buffers that wait in the ring or are with the device. */
function occupied(queue: Backend['queues'][number]['queue']): number {
  const view = queue.inspect();
  const pending = view.ring === 'split' ? view.pending?.count : view.pending?.slots;
  return (pending ?? 0) + queue.inFlight;
}

const counts = (device: Device): string =>
  Object.entries((device as { counts?: Record<string, number> }).counts ?? {})
    .map(([name, value]) => `${name} ${value}`)
    .join(' ');
