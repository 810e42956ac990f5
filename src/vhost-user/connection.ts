import { closeSync } from 'node:fs';
import type { Host } from '../host.js';
import { adoptEventfd, drainEventfd, signalEventfd } from '../linux/eventfd.js';
import { mapFile } from '../linux/mapping.js';
import { type Watch, watchReadable } from '../linux/poller.js';
import { receive, send } from '../linux/unix-socket.js';
import type { Device } from './device.js';
import { type Message, MessageReader } from './message.js';
import { ServiceLoop } from './service-loop.js';
import { Session } from './session.js';
import type { QueueReport } from './vring.js';

/** How many messages are handled before others have their turn. */
const TURN = 16;

/** What came of a connection. */
export interface ConnectionReport {
  /** Why it ended; undefined if the front-end closed it, or we did. */
  error: Error | undefined;
  /** One entry for each time that a queue ran. */
  queues: QueueReport[];
}

/** One front-end that is connected, from the socket to the device. */
export class Connection {
  private readonly reader = new MessageReader(false);
  private readonly loop: ServiceLoop;
  readonly session: Session;
  private watch: Watch | undefined;
  private ended = false;
  private handling: Promise<void> = Promise.resolve();

  /**
   * @param socket belongs to the connection from now on
   * @param closed called once, when everything has been given back
   */
  constructor(
    engine: Host,
    device: Device,
    private readonly socket: number,
    polling: boolean,
    private readonly closed: (report: ConnectionReport) => void,
  ) {
    const fail = (error: unknown): void => void this.end(error);
    this.loop = new ServiceLoop(device, polling, fail);
    const system = {
      map: (fd: number, options: { length: number; offset: number }) => mapFile(engine, fd, options),
      close: closeSync,
      adoptEvent: adoptEventfd,
      signal: signalEventfd,
      drain: drainEventfd,
      watch: watchReadable,
    };
    this.session = new Session(engine, device, system, {
      send: (bytes) => send(socket, bytes),
      start: () => this.loop.start(),
      stop: () => this.loop.stop(),
      wake: () => this.loop.wake(),
      fail,
    });
    this.listen();
  }

  private listen(): void {
    this.watch = watchReadable(this.socket, () => {
      // Not called again before all that has been read is done.
      this.watch?.stop();
      this.handling = this.read().then(
        (open) => {
          if (open && !this.ended) this.listen();
          else void this.end();
        },
        (error) => void this.end(error),
      );
    });
  }

  /** Handles what there is. @returns false at the end of the stream */
  private async read(): Promise<boolean> {
    for (let messages = 0; messages < TURN && !this.ended; ) {
      const chunk = receive(this.socket, this.reader.wanted);
      if (chunk === undefined) return true;
      if (chunk.bytes.length === 0) return false;
      const message: Message | undefined = this.reader.feed(chunk.bytes, chunk.fds);
      if (message === undefined) continue;
      await this.session.handle(message);
      messages++;
    }
    return true;
  }

  /** Ends the connection from this side. */
  async close(): Promise<void> {
    await this.end();
  }

  private async end(error?: unknown): Promise<void> {
    if (this.ended) return;
    this.ended = true;
    this.loop.stop();
    this.watch?.stop();
    // What a message set off, such as waiting for a device, comes to its end first.
    await this.handling.catch(() => {});
    for (const fd of this.reader.abandon()) closeSync(fd);
    closeSync(this.socket);
    let reason = error;
    let queues: QueueReport[] = [];
    try {
      queues = await this.session.close();
    } catch (late) {
      reason ??= late;
      queues = this.session.reports;
    }
    this.closed({
      error: reason === undefined || reason instanceof Error ? reason : new Error(String(reason)),
      queues,
    });
  }
}
