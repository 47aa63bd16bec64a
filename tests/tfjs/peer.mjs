// Run TensorFlow.js, for comparisons in tests/tfjs. `make peers` installs it.
//
//   node peer.mjs layers              print the layers models below and their answers as JSON
//   node peer.mjs answer FOLDER ...   print the answers of the models in the folders as JSON
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';

const packages = process.env.PEERS ?? path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../benchmarks/peers');
const require = createRequire(packages + '/');
console.log = console.info = console.warn = () => {};  // the output is JSON
const tf = require('@tensorflow/tfjs');
await tf.setBackend('cpu');
const L = tf.layers;

// --- inputs and weights, which files.py computes as well ------------------------------

const values = (count, start) => Float32Array.from(
  { length: count }, (_, i) => Math.sin(0.7 * i + start));

function input({ shape, dtype }) {
  const sizes = shape.map((n) => (n == null || n < 0 ? 2 : n)), count = sizes.reduce((a, b) => a * b, 1);
  const numbers = values(count, 0.5);
  return dtype === 'int32' ? tf.tensor(Int32Array.from(numbers, (_, i) => (i * 3 + 1) % 5), sizes, 'int32')
    : tf.tensor(numbers, sizes);
}

function weight(name, shape, i) {
  const numbers = values(shape.reduce((a, b) => a * b, 1), i);
  return tf.tensor(name.endsWith('variance') ? numbers.map((x) => x * x + 0.5) : numbers.map((x) => x / 2), shape);
}

// --- layers models ---------------------------------------------------------------------

const sequential = (inputShape, ...layers) => {
  const model = tf.sequential();
  model.add(L.inputLayer({ inputShape, dtype: layers[0].getClassName() === 'Embedding' ? 'int32' : 'float32' }));
  layers.forEach((layer) => model.add(layer));
  return model;
};
const functional = (shapes, build) => {
  const inputs = shapes.map((shape) => tf.input({ shape }));
  return tf.model({ inputs, outputs: build(...inputs) });
};
const conv = { filters: 3, kernelSize: 2 };
const recurrent = { units: 3, returnSequences: true };

const MODELS = {
  dense: () => sequential([4], L.dense({ units: 3, activation: 'relu' }), L.dense({ units: 2, useBias: false, activation: 'softmax' })),
  conv1d: () => sequential([6, 2], L.conv1d({ ...conv, padding: 'same', dilationRate: 2 }), L.conv1d({ ...conv, strides: 2 })),
  conv2d: () => sequential([5, 6, 2], L.conv2d({ ...conv, padding: 'same', strides: 2, activation: 'elu' }), L.conv2d({ ...conv, kernelSize: [1, 2], dilationRate: [1, 2] })),
  conv2d_first: () => sequential([2, 5, 6], L.conv2d({ ...conv, dataFormat: 'channelsFirst', useBias: false }), L.maxPooling2d({ poolSize: 2, dataFormat: 'channelsFirst' })),
  conv2d_transpose: () => sequential([3, 4, 2], L.conv2dTranspose({ ...conv, kernelSize: 3, strides: 2, padding: 'same' }), L.conv2dTranspose({ ...conv, kernelSize: 3, strides: 2 })),
  conv3d: () => sequential([3, 4, 3, 2], L.conv3d({ ...conv, padding: 'same' }), L.maxPooling3d({ poolSize: [2, 2, 1], strides: [1, 2, 1] })),
  depthwise: () => sequential([5, 6, 2], L.depthwiseConv2d({ kernelSize: 3, depthMultiplier: 2, padding: 'same', strides: 2 })),
  separable: () => sequential([5, 6, 2], L.separableConv2d({ ...conv, activation: 'relu6' })),
  pooling1d: () => sequential([7, 2], L.maxPooling1d({ poolSize: 2, strides: 1 }), L.averagePooling1d({ poolSize: 3, padding: 'same' }), L.globalMaxPooling1d()),
  pooling2d: () => sequential([7, 6, 2], L.maxPooling2d({ poolSize: 2, strides: 1 }), L.averagePooling2d({ poolSize: [3, 2], padding: 'same' }), L.globalAveragePooling2d({})),
  pooling_all: () => sequential([4, 3], L.globalAveragePooling1d()),
  normalization: () => sequential([4, 3], L.batchNormalization(), L.layerNormalization(), L.layerNormalization({ axis: [1, 2], scale: false })),
  normalization_parts: () => sequential([4, 3, 2], L.batchNormalization({ axis: 3, center: false, epsilon: 0.1 })),
  embedding: () => sequential([4], L.embedding({ inputDim: 5, outputDim: 3 }), L.flatten(), L.dropout({ rate: 0.5 })),
  shapes: () => sequential([4, 6], L.permute({ dims: [2, 1] }), L.flatten(), L.repeatVector({ n: 3 }), L.reshape({ targetShape: [2, -1] })),
  images: () => sequential([3, 4, 2], L.zeroPadding2d({ padding: [[1, 0], [2, 1]] }), L.cropping2D({ cropping: [[0, 1], [1, 1]] }), L.upSampling2d({ size: [2, 3] }), L.upSampling2d({ interpolation: 'bilinear' })),
  activations: () => functional([[6]], (x) => ['elu', 'gelu', 'hardSigmoid', 'linear', 'logSoftmax', 'mish', 'relu', 'relu6', 'selu', 'sigmoid', 'softmax', 'softplus', 'softsign', 'swish', 'tanh']
    .map((activation) => L.activation({ activation }).apply(x))),
  activation_layers: () => functional([[6]], (x) => [L.reLU({ maxValue: 0.5 }), L.leakyReLU({ alpha: 0.1 }), L.elu(), L.thresholdedReLU({ theta: 0.3 }), L.softmax(), L.prelu()].map((layer) => layer.apply(x))),
  simple_rnn: () => sequential([4, 2], L.simpleRNN(recurrent), L.simpleRNN({ units: 2, goBackwards: true })),
  gru: () => sequential([4, 2], L.gru(recurrent), L.gru({ units: 2, recurrentActivation: 'sigmoid', goBackwards: true })),
  lstm: () => sequential([4, 2], L.lstm(recurrent), L.lstm({ units: 2, recurrentActivation: 'sigmoid', useBias: false, goBackwards: true })),
  lstm_states: () => functional([[4, 2], [3, 2]], (x, y) => {
    const [, h, c] = L.lstm({ units: 2, returnState: true }).apply(x);
    return L.lstm({ units: 2, returnSequences: true }).apply([y, h, c]);
  }),
  bidirectional: () => sequential([4, 2], L.bidirectional({ layer: L.lstm(recurrent), mergeMode: 'concat' }), L.bidirectional({ layer: L.gru({ units: 2 }), mergeMode: 'ave' })),
  time_distributed: () => sequential([4, 5], L.timeDistributed({ layer: L.dense({ units: 2 }) })),
  masked: () => sequential([4], L.embedding({ inputDim: 5, outputDim: 3, maskZero: true }), L.dense({ units: 2 }), L.gru(recurrent), L.bidirectional({ layer: L.simpleRNN({ units: 2 }), mergeMode: 'sum' })),
  masking: () => sequential([4, 2], L.masking({ maskValue: 0 }), L.lstm({ units: 2 })),
  merges: () => functional([[3], [3]], (x, y) => [L.add(), L.multiply(), L.average(), L.maximum(), L.minimum(), L.concatenate(), L.dot({ axes: -1, normalize: true })].map((layer) => layer.apply([x, y]))),
  dot: () => functional([[3, 4], [2, 4]], (x, y) => L.dot({ axes: 2 }).apply([x, y])),
  shared: () => functional([[3], [3]], (x, y) => {
    const layer = L.dense({ units: 3, activation: 'tanh' });
    return L.concatenate({ axis: 1 }).apply([layer.apply(x), layer.apply(layer.apply(y))]);
  }),
  nested: () => functional([[4]], (x) => {
    const inner = tf.sequential({ layers: [L.dense({ units: 4, inputShape: [4] }), L.reLU()] });
    const z = tf.input({ shape: [4] });
    const middle = tf.model({ inputs: z, outputs: [inner.apply(inner.apply(z)), L.dense({ units: 2 }).apply(z)] });
    const [a, b] = middle.apply(x);
    return [L.add().apply([a, x]), b];
  }),
};

const isKept = (key) => !/(_initializer|_regularizer|_constraint)$/.test(key);
const slim = (x) => (Array.isArray(x) ? x.map(slim) : x && typeof x === 'object'
  ? Object.fromEntries(Object.entries(x).filter(([key]) => isKept(key)).map(([key, value]) => [key, slim(value)])) : x);

const list = (x) => (Array.isArray(x) ? x : [x]);
const described = (answers) => list(answers).map((y) => ({ shape: y.shape, values: [...y.dataSync()].map((v) => +v.toPrecision(7)) }));

function recorded(name) {
  const model = MODELS[name]();
  const weights = model.weights.map((w, i) => weight(w.originalName, w.shape, i));
  model.setWeights(weights);
  const topology = slim(model.toJSON(null, false));
  const manifest = model.weights.map((w) => ({ name: w.originalName, shape: w.shape, dtype: 'float32' }));
  return { name, topology, weights: manifest, answers: described(model.predict(model.inputs.map(input))) };
}

// --- models in files --------------------------------------------------------------------

function artifacts(folder) {
  const { modelTopology, weightsManifest, signature } = JSON.parse(readFileSync(path.join(folder, 'model.json')));
  const files = weightsManifest.flatMap((group) => group.paths).map((name) => readFileSync(path.join(folder, name)));
  const data = Buffer.concat(files), weightData = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
  return tf.io.fromMemory({ modelTopology, signature, weightData, weightSpecs: weightsManifest.flatMap((group) => group.weights) });
}

async function answer(folder) {
  const handler = artifacts(folder);
  const isGraph = 'node' in JSON.parse(readFileSync(path.join(folder, 'model.json'))).modelTopology;
  const model = await (isGraph ? tf.loadGraphModel : tf.loadLayersModel)(handler);
  return described(model.predict(model.inputs.map(input)));
}

const [command, ...folders] = process.argv.slice(2);
const result = [];
if (command === 'layers') for (const name of Object.keys(MODELS)) result.push(recorded(name));
else for (const folder of folders) result.push(await answer(folder));
process.stdout.write(JSON.stringify(result) + '\n');
