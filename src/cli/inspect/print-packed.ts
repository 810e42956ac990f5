import type { TableMemoryView } from '../../queue/inspect/inspect.js';
import type { EventView, PackedPosition } from '../../queue/inspect/packed.js';
import type { PackedDeviceView } from '../../queue/inspect/packed-device.js';
import type { PackedDriverView } from '../../queue/inspect/packed-driver.js';
import type { PackedDumpView } from '../../queue/inspect/packed-dump.js';
import type { Colours } from '../colours.js';
import { number } from '../table.js';
import { elementRows } from './elements.js';
import {
  batchFact,
  commonFacts,
  counted,
  type Fact,
  plural,
  ranges,
  type Sheet,
  saturated,
  sideProblems,
  tableFact,
  unlisted,
} from './sheet.js';

const at = ({ slot, wrap }: PackedPosition): string => `slot ${slot}, wrap ${wrap}`;

/** The words of an event structure; the position means something with DESC alone. */
function eventFact({ flags, ...position }: EventView, { quiet }: Colours): string {
  const offWrap = `off_wrap ${at(position)}`;
  return `${flags}, ${flags === 'DESC' ? offWrap : quiet(offWrap)}`;
}

function eventFacts(view: { driverEvent?: EventView; deviceEvent?: EventView }, { paint }: Sheet): Fact[] {
  const { driverEvent, deviceEvent } = view;
  const facts: Fact[] = [];
  if (driverEvent) facts.push(['driver event', eventFact(driverEvent, paint)]);
  if (deviceEvent) facts.push(['device event', eventFact(deviceEvent, paint)]);
  return facts;
}

/** What is to be said of a buffer whose slots were written over. */
function remark(slots: number, overwritten: number | undefined): { remark?: string } {
  if (overwritten === undefined) return {};
  const how =
    slots === 1
      ? 'its slot was'
      : overwritten === slots
        ? 'all its slots were'
        : `${overwritten} of its ${slots} slots were`;
  return { remark: `${how} written over since` };
}

export function printPackedDriver(view: PackedDriverView & TableMemoryView, sheet: Sheet): void {
  const { position, pending } = view;
  sheet.title(`Driver of a packed ring of ${number(view.size)}`, view.features, sideProblems(view));
  sheet.facts([
    ['next buffer', at(position.avail)],
    ['next used', at(position.used)],
    ...eventFacts(view, sheet),
    ['callbacks', view.callbacks],
    ['not kicked', saturated(view.unkicked, 'slot')],
    ['free', view.numFree === 0 ? 'no slot' : plural(view.numFree, 'slot')],
    ['free ids', view.free.length === 0 ? 'none' : ranges(view.free)],
    ...batchFact(view.batch),
    ['tables', tableFact(view.tables)],
    ...commonFacts(view),
  ]);
  sheet.buffers(
    `In flight: ${counted(view.inFlight.length, 'buffer')}`,
    ['id', 'token', 'slot', 'slots', 'writable'],
    view.inFlight.map((buffer) => ({
      ...buffer,
      ...remark(buffer.slots, buffer.overwritten),
      cells: [buffer.id, buffer.token, buffer.slot, buffer.slots, buffer.writable],
    })),
  );
  if (pending)
    sheet.buffers(
      `Used and not taken: ${counted(pending.entries.length, 'descriptor')}`,
      ['slot', 'id', 'length'],
      pending.entries.map(({ slot, id, length, problem }) => ({
        cells: [slot, id, length],
        ...(problem !== undefined && { problem }),
      })),
    );
  else sheet.withoutMemory();
}

export function printPackedDevice(view: PackedDeviceView, sheet: Sheet): void {
  const { position, pending } = view;
  sheet.title(`Device of a packed ring of ${number(view.size)}`, view.features, sideProblems(view));
  sheet.facts([
    ['next buffer', at(position.avail)],
    ['next used', at(position.used)],
    ...eventFacts(view, sheet),
    ['notifications', view.notifications],
    ['not signalled', saturated(view.unsignalled, 'slot')],
    ...commonFacts(view),
  ]);
  const [head, rows] = elementRows(view.inFlight);
  sheet.buffers(
    `In flight: ${counted(view.inFlight.length, 'element')}`,
    [...head, 'slot', 'slots'],
    rows.map((row, i) => {
      const { slot, slots, overwritten } = view.inFlight[i];
      return { ...row, ...remark(slots, overwritten), cells: [...row.cells, slot ?? '?', slots] };
    }),
  );
  if (pending)
    sheet.buffers(
      `Available and not popped: ${counted(pending.slots, 'slot')}`,
      ['slot', 'slots', 'id', 'writable'],
      pending.buffers.map((buffer) => ({
        ...buffer,
        cells: [buffer.slot, buffer.slots, buffer.id ?? '?', buffer.writable],
      })),
      unlisted(pending.slots - pending.buffers.reduce((sum, { slots }) => sum + slots, 0), 'slot'),
    );
  else sheet.withoutMemory();
}

export function printPackedDump(view: PackedDumpView, sheet: Sheet): void {
  const { descriptors, available } = view;
  sheet.title(`Packed ring of ${number(view.size)}`, [], view.problems);
  sheet.facts(eventFacts(view, sheet));
  sheet.buffers(
    `Available, as far as the flags tell: ${counted(available.length, 'buffer')}`,
    ['slot', 'slots', 'id', 'writable'],
    available.map((buffer) => ({
      ...buffer,
      ...(buffer.overwritten && { remark: 'goes on to slots that are used: most likely it is used, too' }),
      cells: [buffer.slot, buffer.slots, buffer.id ?? '?', buffer.writable],
    })),
  );
  const written = descriptors.filter(({ state }) => state !== 'unused');
  sheet.buffers(
    `Descriptors: ${number(view.size)}${written.length < view.size ? `, ${number(view.size - written.length)} of them 0` : ''}`,
    ['slot', 'state', 'wrap', 'id', 'address', 'length', 'flags'],
    written.map(({ slot, state, wrap, id, address, length, flags }) => ({
      cells: [slot, state, wrap, id, address, length, flags.join(' ')],
    })),
  );
}
