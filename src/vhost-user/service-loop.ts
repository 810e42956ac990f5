import type { Device } from './device.js';

/** How often a device is served before others have their turn. */
const TURN = 8;

/**
 * Runs a device: while there is something to do, in turns with everything else in the event loop; then not at
 * all until `wake`, or with `polling` for ever.
 */
export class ServiceLoop {
  private next: NodeJS.Immediate | undefined;
  private enabled = false;

  /** @param fail takes what the device throws; the loop has stopped then */
  constructor(
    private readonly device: Device,
    private readonly polling: boolean,
    private readonly fail: (error: unknown) => void,
  ) {}

  /** Lets it run, from now on. */
  start(): void {
    this.enabled = true;
    this.schedule();
  }

  /** Nothing of the device runs afterwards. */
  stop(): void {
    this.enabled = false;
    if (this.next !== undefined) clearImmediate(this.next);
    this.next = undefined;
  }

  /** There may be something to do. */
  wake(): void {
    if (this.enabled && this.next === undefined) this.turn();
  }

  private schedule(): void {
    this.next ??= setImmediate(this.turn);
  }

  private readonly turn = (): void => {
    this.next = undefined;
    try {
      const { device } = this;
      let more = true;
      for (let i = 0; more && i < TURN; i++) more = device.service();
      if (!more && !this.polling && device.arm()) return;
      this.schedule();
    } catch (error) {
      this.stop();
      this.fail(error);
    }
  };
}
