import { type DriverQueue, Feature, type Host, loadEngine } from '../../src/index.js';
import { type TableTaskOptions, THRESHOLD } from './options.js';

/** A driver with its engine, set up as the options say. */
export async function createDriver(
  options: TableTaskOptions,
): Promise<{ engine: Host; driver: DriverQueue }> {
  const { ring, size, engine: name, strategy, table, policy } = options;
  const engine = await loadEngine({ engine: name });
  const driver = engine.driverQueue({
    ring,
    size,
    features: featuresOf(options),
    indirect: {
      policy,
      ...(policy === 'static' && { threshold: THRESHOLD }),
      // Never short of memory: what exhaustion does is a matter of tests.
      memory: size * 1024,
      tables: { strategy, descriptors: table },
    },
  });
  return { engine, driver };
}

export const featuresOf = ({ ring }: Pick<TableTaskOptions, 'ring'>): Feature[] => [
  Feature.VERSION_1,
  Feature.EVENT_IDX,
  Feature.INDIRECT_DESC,
  ...(ring === 'packed' ? [Feature.RING_PACKED] : []),
];
