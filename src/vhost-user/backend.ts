import { closeSync, unlinkSync } from 'node:fs';
import { show, VringError } from '../errors.js';
import type { Host } from '../host.js';
import { type Watch, watchReadable } from '../linux/poller.js';
import { accept, connectTo, listenAt } from '../linux/unix-socket.js';
import type { DeviceQueue } from '../queue/device-queue.js';
import { Connection, type ConnectionReport } from './connection.js';
import type { Device } from './device.js';
import { checkDevice } from './session.js';

export interface BackendOptions {
  /**
   * An engine with `shared: true`: its memory is where the front-end's memory is shown, so its arena (`size`)
   * must have room for all of that.
   */
  engine: Host;
  /** Path of the unix socket, at most 107 bytes. */
  socket: string;
  device: Device;
  /** Connects to a front-end that listens, instead of listening for one. */
  client?: boolean;
  /** Looks for buffers all the time instead of waiting for notifications: takes a whole core. */
  polling?: boolean;
  /** A front-end has come. */
  connected?: () => void;
  /** A front-end has gone, for whatever reason, and everything is given back. The next one is served. */
  closed?: (report: ConnectionReport) => void;
}

const RECONNECT_MS = 200;

/**
 * Back-end of the vhost-user protocol: lets a virtual machine monitor (QEMU), or whoever speaks it, drive a
 * virtio device of ours. One front-end at a time; when it goes, the next is waited for. Several back-ends may
 * run in one process, also on one engine.
 */
export class Backend {
  private readonly options: BackendOptions;
  private listener = -1;
  private watch: Watch | undefined;
  private timer: NodeJS.Timeout | undefined;
  private connection: Connection | undefined;
  private stopped = false;
  private gone: (() => void) | undefined;

  /**
   * Starts to listen, or to look for a listener.
   * @throws VringError EINVAL for bad options or a path in use; ENOTSUP without Linux and koffi; EIO
   */
  constructor(options: BackendOptions) {
    const { engine, socket, device } = options;
    if (typeof socket !== 'string')
      throw new VringError('EINVAL', `socket must be a path, got ${show(socket)}`);
    if (!(engine.memory instanceof WebAssembly.Memory) || !(engine.buffer instanceof SharedArrayBuffer))
      throw new VringError(
        'EINVAL',
        'other processes write to the memory at the same time: load the engine with shared: true',
      );
    checkDevice(device);
    this.options = options;
    if (options.client !== true) this.listener = listenAt(socket);
    this.look();
  }

  /** The queues that run now. */
  get queues(): { index: number; queue: DeviceQueue }[] {
    return this.connection?.session.running ?? [];
  }

  /** Waits for a front-end. */
  private look(): void {
    if (this.options.client === true) {
      const socket = connectTo(this.options.socket);
      if (socket === undefined) this.timer = setTimeout(() => this.look(), RECONNECT_MS);
      else this.serve(socket);
      return;
    }
    this.watch = watchReadable(this.listener, () => {
      const socket = accept(this.listener);
      if (socket === undefined) return;
      // The next one waits in the socket's queue.
      this.watch?.stop();
      this.serve(socket);
    });
  }

  private serve(socket: number): void {
    const { engine, device, polling = false } = this.options;
    this.options.connected?.();
    this.connection = new Connection(engine, device, socket, polling, (report) => {
      this.connection = undefined;
      this.options.closed?.(report);
      if (this.stopped) this.gone?.();
      else if (this.options.client) this.timer = setTimeout(() => this.look(), RECONNECT_MS);
      else this.look();
    });
  }

  /** Ends the connection, if there is one, and serves no other. Done when everything is given back. */
  async close(): Promise<void> {
    if (this.stopped) return;
    this.stopped = true;
    clearTimeout(this.timer);
    this.watch?.stop();
    if (this.connection !== undefined) {
      const gone = new Promise<void>((resolve) => {
        this.gone = resolve;
      });
      await this.connection.close();
      await gone;
    }
    if (this.listener >= 0) {
      closeSync(this.listener);
      unlinkSync(this.options.socket);
    }
  }
}
