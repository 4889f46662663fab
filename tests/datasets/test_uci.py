"""Each reader, tested on a small archive in the documented format."""

import io
import tarfile
import zipfile

import numpy as np
import pytest

from apviz.datasets import uci


def zipped(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def zip_bytes(files):
    buffer = io.BytesIO()
    zipped(buffer, files)
    return buffer.getvalue()


def tar_bytes(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def test_sgemm_target_is_the_log_of_the_mean_run_time(tmp_path):
    header = "MWG,NWG,Run1 (ms),Run2 (ms),Run3 (ms),Run4 (ms)\n"
    csv = header + "16,32,1,2,3,4\n64,128,10,10,10,30\n"
    raw = uci.read_sgemm(zipped(tmp_path / "a.zip", {"Readme.txt": "hello", "sgemm_product.csv": csv}))
    assert raw.feature_names == ("MWG", "NWG")
    np.testing.assert_allclose(raw.inputs, [[16, 32], [64, 128]])
    np.testing.assert_allclose(raw.target, np.log([2.5, 15]))


AIR = (
    '"No","year","month","day","hour","PM2.5","PM10","SO2","NO2","CO","O3","TEMP","PRES","DEWP","RAIN","wd",'
    '"WSPM","station"\n'
)


def air_files():
    folder = "PRSA_Data_20130301-20170228/PRSA_Data_{}_20130301-20170228.csv"
    one = AIR + '1,2013,3,1,0,9,9,3,17,300,89,-0.5,1024,-21,0,"NNW",5.7,"Dongsi"\n'
    two = AIR + '1,2013,4,1,5,8,9,3,17,NA,89,-0.5,1024,-21,0,"E",5.7,"Aotizhongxin"\n'
    two += '2,2013,4,1,6,7,9,3,17,200,89,-0.5,1024,-21,0,"E",5.7,"Aotizhongxin"\n'
    return {folder.format("Dongsi"): one, folder.format("Aotizhongxin"): two}


@pytest.mark.parametrize("nested", [False, True], ids=["inner archive", "archive in an archive"])
def test_air_quality_drops_incomplete_rows_and_labels_in_sorted_order(tmp_path, nested):
    files = air_files()
    if nested:
        files = {"PRSA2017.zip": zip_bytes(files), "notes.csv": "not,data\n"}
    raw = uci.read_airquality(zipped(tmp_path / "a.zip", files))
    assert len(raw.feature_names) == 13 and raw.target.tolist() == [9, 7]
    wd, station = raw.feature_names.index("wd"), raw.feature_names.index("station")
    assert raw.inputs[:, wd].tolist() == [1, 0] and raw.inputs[:, station].tolist() == [1, 0]


def test_3droad_predicts_altitude_from_id_and_position(tmp_path):
    text = "144552912,9.3498486,56.7408757,17.0527715\n144552913,9.35,56.74,17.6\n"
    for path in (
        zipped(tmp_path / "a.zip", {"3D_spatial_network.txt": text}),
        tmp_path / "3D_spatial_network.txt",
    ):
        if path.suffix == ".txt":
            path.write_text(text)
        raw = uci.read_3droad(path)
        assert raw.inputs.shape == (2, 3) and raw.inputs[0, 0] == 144552912
        np.testing.assert_allclose(raw.target, [17.0527715, 17.6])


def test_song_takes_the_year_from_the_first_column(tmp_path):
    text = "\n".join(",".join(str(v) for v in [year, *range(90)]) for year in (2001, 1999))
    raw = uci.read_song(zipped(tmp_path / "a.zip", {"YearPredictionMSD.txt": text}))
    assert raw.target.tolist() == [2001, 1999] and raw.inputs[1].tolist() == list(range(90))


def test_buzz_reads_twitter_through_the_nested_tar(tmp_path):
    text = ",".join(str(v) for v in range(77)) + ",99.0\n"
    tar = tar_bytes({"regression/TomsHardware/TomsHardware.data": "1,2\n", "regression/Twitter/Twitter.data": text})
    raw = uci.read_buzz(zipped(tmp_path / "a.zip", {"regression.tar.gz": tar}))
    assert raw.inputs.shape == (1, 77) and len(set(raw.feature_names)) == 77
    np.testing.assert_allclose(raw.target, np.log(100))


def test_houseelectric_parses_dates_and_drops_missing_rows(tmp_path):
    text = (
        "Date;Time;Global_active_power;Global_reactive_power;Voltage;Global_intensity;"
        "Sub_metering_1;Sub_metering_2;Sub_metering_3\n"
        "16/12/2006;17:24:00;4.216;0.418;234.840;18.400;0.000;1.000;17.000\n"
        "28/4/2007;00:21:00;?;?;?;?;?;?;\n"
        "3/1/2007;07:05:00;1.0;0.1;240.0;4.2;0;0;0\n"
    )
    raw = uci.read_houseelectric(zipped(tmp_path / "a.zip", {"household_power_consumption.txt": text}))
    assert raw.feature_names[:6] == ("day", "month", "year", "hour", "minute", "second")
    np.testing.assert_allclose(raw.inputs[1], [3, 1, 2007, 7, 5, 0, 0.1, 240, 4.2, 0, 0, 0])
    np.testing.assert_allclose(raw.target, np.log([4.216, 1.0]))
    assert raw.inputs.shape == (2, 12)  # the seconds are constant: 11 after preprocessing, as on the card


def test_gas_sensors_take_time_and_sixteen_sensors(tmp_path):
    text = "Time (seconds), Methane conc (ppm), Ethylene conc (ppm), sensor readings (16 channels)\n"
    text += "0.00  0.00  1.00  " + "   ".join(f"{v:.2f}" for v in range(16)) + "\n"
    text += "0.01\t5.50\t1.00\t" + "\t".join(f"{v:.2f}" for v in range(16)) + "\n"
    raw = uci.read_gassensors(zipped(tmp_path / "a.zip", {"ethylene_CO.txt": "x", "ethylene_methane.txt": text}))
    assert raw.inputs.shape == (2, 17) and raw.inputs[:, 0].tolist() == [0, 0.01]
    assert raw.target.tolist() == [0, 5.5]


def test_a_broken_archive_a_wrong_archive_and_wrong_content_give_different_errors(tmp_path):
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK not really")
    with pytest.raises(ValueError, match="not a readable archive.*fetch it again"):
        uci.read_song(broken)
    with pytest.raises(ValueError, match="holds no file named …YearPredictionMSD.txt"):
        uci.read_song(zipped(tmp_path / "other.zip", {"a.txt": ""}))
    with pytest.raises(ValueError, match="not in the documented format"):
        uci.read_3droad(zipped(tmp_path / "text.zip", {"3D_spatial_network.txt": "a,b,c,d\n"}))
